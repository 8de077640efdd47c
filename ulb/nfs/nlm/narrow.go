package nlm

import (
	"math"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
)

// An older serves version 1 or 3 of the protocol (X/Open C702), whose offsets and lengths have 32 bits. macOS and BSD use
// them beside version 4.
type older struct {
	nfs.Service
	*Program
}

// Older returns the programs for the versions 1 and 3, with the locks of p.
func (p *Program) Older() []rpc.Program {
	return []rpc.Program{
		&older{nfs.Service{Program: wire.Program, Version: 1, Procedures: &nfs.BindingNLM1}, p},
		&older{nfs.Service{Program: wire.Program, Version: 3, Procedures: &nfs.BindingNLM3}, p},
	}
}

// A dialect decodes the arguments of a version that differ from one version to the other.
type dialect struct {
	test   func(d *xdr.Decoder, a *wire.TestArgs4)
	lock   func(d *xdr.Decoder, a *wire.LockArgs4)
	cancel func(d *xdr.Decoder, a *wire.CancelArgs4)
	unlock func(d *xdr.Decoder, a *wire.UnlockArgs4)
}

var version4 = dialect{
	test:   func(d *xdr.Decoder, a *wire.TestArgs4) { a.Decode(d) },
	lock:   func(d *xdr.Decoder, a *wire.LockArgs4) { a.Decode(d) },
	cancel: func(d *xdr.Decoder, a *wire.CancelArgs4) { a.Decode(d) },
	unlock: func(d *xdr.Decoder, a *wire.UnlockArgs4) { a.Decode(d) },
}

var narrow = dialect{
	test: func(d *xdr.Decoder, a *wire.TestArgs4) {
		var b wire.TestArgs3
		b.Decode(d)
		*a = wire.TestArgs4{Cookie: b.Cookie, Exclusive: b.Exclusive, Lock: widened(&b.Lock)}
	},
	lock: func(d *xdr.Decoder, a *wire.LockArgs4) {
		var b wire.LockArgs3
		b.Decode(d)
		*a = wire.LockArgs4{Cookie: b.Cookie, Block: b.Block, Exclusive: b.Exclusive, Lock: widened(&b.Lock), Reclaim: b.Reclaim, State: b.State}
	},
	cancel: func(d *xdr.Decoder, a *wire.CancelArgs4) {
		var b wire.CancelArgs3
		b.Decode(d)
		*a = wire.CancelArgs4{Cookie: b.Cookie, Block: b.Block, Exclusive: b.Exclusive, Lock: widened(&b.Lock)}
	},
	unlock: func(d *xdr.Decoder, a *wire.UnlockArgs4) {
		var b wire.UnlockArgs3
		b.Decode(d)
		*a = wire.UnlockArgs4{Cookie: b.Cookie, Lock: widened(&b.Lock)}
	},
}

// dialectOf returns the dialect of a version.
func dialectOf(version uint32) *dialect {
	if version == wire.Version {
		return &version4
	}
	return &narrow
}

// widened returns a lock as version 4 has it. Of its lengths only 0 means to the end.
func widened(l *wire.Lock3) wire.Lock4 {
	return wire.Lock4{CallerName: l.CallerName, FileHandle: l.FileHandle, OH: l.OH, SVID: l.SVID, Offset: uint64(l.Offset), Length: uint64(l.Length)}
}

// narrowed returns a lock of an owner that uses version 1 or 3, as that version has it. It came in 32 bits.
func narrowed(l *wire.Lock4) wire.Lock3 {
	return wire.Lock3{CallerName: l.CallerName, FileHandle: l.FileHandle, OH: l.OH, SVID: l.SVID, Offset: uint32(l.Offset), Length: uint32(l.Length)}
}

// narrowHolder returns the holder of a lock in 32 bits. What lies beyond them is told as the last byte that the caller could
// name, and what reaches there as a lock to the end.
func narrowHolder(h *wire.Holder4) wire.Holder3 {
	n := wire.Holder3{Exclusive: h.Exclusive, SVID: h.SVID, OH: h.OH, Offset: uint32(min(h.Offset, math.MaxUint32))}
	if h.Offset <= math.MaxUint32 && h.Length <= math.MaxUint32 {
		n.Length = uint32(h.Length)
	}
	return n
}

// told returns the status for the version of the call: before version 4 there were none beyond DEADLCK.
func (r *request) told(stat wire.Stat4) wire.Stat4 {
	if r.call.Header.Version != wire.Version && stat > wire.Deadlock {
		return wire.DeniedNoLocks
	}
	return stat
}
