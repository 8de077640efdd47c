package nfs4

import (
	"errors"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// read is READ (RFC 8881 §18.22). The file system reads into the memory reserved for the
// call, and the transport sends from there.
func read(k *Compound, args *wire.Read4Args) Status {
	f, s := k.openFor(&k.Current, &args.Stateid, state.AccessRead)
	if s != wire.NFS4OK {
		return s
	}
	buf, lent, s := k.readable(args.Count)
	if s != wire.NFS4OK {
		return s
	}
	k.Attr = vfs.Attr{}
	var n int
	var eof bool
	var err error
	if f != nil {
		n, eof, err = f.Read(&k.Op, args.Offset, buf, &k.Attr)
	} else {
		n, eof, err = k.FS().Read(&k.Op, k.Current.Handle, args.Offset, buf, &k.Attr)
	}
	if err != nil {
		return k.closedOr(err)
	}
	k.brought()
	k.Current.Export.DidRead(k.Call.Conn, n)
	res := wire.Read4ResOK{EOF: eof}
	if lent {
		k.lent = k.lent[n:]
		res.Data.Data = buf[:n:n]
	} else {
		res.Data = k.Call.Eligible(buf[:n:n])
	}
	res.Encode(k.W)
	return wire.NFS4OK
}

// unreserved is the number of bytes that all READs of one compound share if the server reserved
// no payload memory for them. This is the case if the compound does not begin with one of this
// server's handles, or if its READs together ask for more than nfs.MaxTransfer bytes.
const unreserved = 32 << 10

// readable returns memory for a READ of count bytes, or less if the reply has less room. Usually it is
// part of the memory that the server reserved for the call. If none was reserved (see unreserved), it is
// part of k.lent, lent is true, and the caller removes the bytes that the READ used from k.lent.
func (k *Compound) readable(count uint32) (buf []byte, lent bool, s Status) {
	n := min(int(min(count, nfs.MaxTransfer)), k.PayloadRoom(wire.Read4ResOKMaxReducedSize))
	if n == 0 {
		return nil, false, wire.NFS4OK
	}
	if m := k.Call.Memory; m != nil && len(m.Bytes()) > k.Call.ResultsAt {
		return k.Call.ResultMemory(min(n, len(m.Bytes())-k.Call.ResultsAt)), false, wire.NFS4OK
	}
	if k.lent == nil {
		k.lent = make([]byte, unreserved)
	}
	if len(k.lent) == 0 {
		return nil, false, k.tooBig()
	}
	return k.lent[:min(n, len(k.lent))], true, wire.NFS4OK
}

// write is WRITE (RFC 8881 §18.32). The file system gets the slice in which the transport
// placed the data, without a copy.
func write(k *Compound, args *wire.Write4Args) Status {
	f, s := k.openFor(&k.Current, &args.Stateid, state.AccessWrite)
	if s != wire.NFS4OK {
		return s
	}
	k.data[0] = args.Data.Data
	// The verifier is read before the write: if a sync fails during the write, this data may be lost. The
	// client then gets another verifier in the reply to its COMMIT, and writes the data again.
	verf := wire.Verifier4(k.FS().Verifier())
	stable := vfs.Stability(args.Stable)
	var n int
	var ch vfs.Change
	var err error
	if f != nil {
		n, stable, ch, err = f.Write(&k.Op, args.Offset, k.data[:], stable)
	} else {
		n, stable, ch, err = k.FS().Write(&k.Op, k.Current.Handle, args.Offset, k.data[:], stable)
	}
	k.data[0] = nil
	if err != nil {
		return k.closedOr(err)
	}
	if ch.HasAfter {
		k.Attr = ch.After
		k.brought()
	}
	k.Current.Export.DidWrite(k.Call.Conn, n)
	res := wire.Write4ResOK{Count: uint32(n), Committed: wire.StableHow4(stable), Writeverf: verf}
	res.Encode(k.W)
	return wire.NFS4OK
}

// commit is COMMIT (RFC 8881 §18.3).
func commit(k *Compound, args *wire.Commit4Args) Status {
	if args.Offset > 1<<64-1-uint64(args.Count) {
		if k.Minor == 0 {
			return wire.NFS4ErrInvalid
		}
		// Later minor versions have no status for a range that exceeds 64 bits (RFC 8881
		// §15.2). Count 0 commits up to the end of the file.
		args.Count = 0
	}
	if _, err := k.FS().Commit(&k.Op, k.Current.Handle, args.Offset, args.Count); err != nil {
		if s := k.closedOr(err); s != wire.NFS4ErrNoSpace && s != wire.NFS4ErrDQuot {
			return s
		}
		return wire.NFS4ErrIO // COMMIT has no other status for lost data (RFC 8881 §15.2)
	}
	res := wire.Commit4ResOK{Writeverf: wire.Verifier4(k.FS().Verifier())}
	res.Encode(k.W)
	return wire.NFS4OK
}

// closedOr returns the status of an operation on the content of the current file that failed with err: the
// status for the object's type if it is no regular file, that of the stateid if the open file was closed
// meanwhile, or else what Failed returns.
func (k *Compound) closedOr(err error) Status {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return k.Failed(err)
	}
	switch errno {
	case syscall.EBADF:
		return k.closed()
	case syscall.EISDIR, syscall.EINVAL, syscall.ELOOP, syscall.ENXIO:
		if s := k.regular(); s != wire.NFS4OK {
			return s
		}
	}
	return k.Failed(err)
}

// closed returns the status of an operation whose open file was closed meanwhile. If the stateids are still
// valid, an OPEN_DOWNGRADE replaced the file, and the client repeats the operation after NFS4ERR_DELAY.
func (k *Compound) closed() Status {
	for _, u := range k.uses {
		if u.state == nil {
			continue
		}
		if _, v := u.state.For(u.want, u.by); v != state.Granted {
			return k.Answer(v)
		}
	}
	return wire.NFS4ErrDelay
}

// readlink is READLINK (RFC 8881 §18.24, RFC 7530 §16.25). The transport may place the text directly.
func readlink(k *Compound) Status {
	room := k.PayloadRoom(4)
	text := k.Call.ResultMemory(nfs.MaxPath)
	if text == nil {
		return k.tooBig()
	}
	n, err := k.FS().ReadLink(&k.Op, k.Current.Handle, text, &k.Attr)
	switch {
	case errors.Is(err, syscall.EINVAL):
		return k.notALink()
	case err != nil:
		return k.Failed(err)
	case n > room:
		return k.tooBig()
	}
	res := wire.Readlink4ResOK{Link: k.Call.Eligible(text[:n:n])}
	res.Encode(k.W)
	return wire.NFS4OK
}

// notALink returns the status of a READLINK of an object that is no symbolic link.
func (k *Compound) notALink() Status {
	t, s := k.kind()
	switch {
	case s != wire.NFS4OK:
		return s
	case t != vfs.Symlink && k.Minor > 0:
		return wire.NFS4ErrWrongType
	}
	return wire.NFS4ErrInvalid
}
