package nfs4

import (
	"errors"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// maxSegments is the maximum number of segments in one READ_PLUS result.
const maxSegments = 32

// Sizes of segments in a result, in bytes, without the data.
const (
	dataSegment = 4 + 8 + 4
	holeSegment = 4 + 8 + 8
)

// leastHole is the length in bytes of the shortest hole that is sent as a hole; a shorter one is sent as
// data. A hole between data costs its own segment, the header of the data behind it, and at most 3
// bytes that pad the data before it. So a reply is never longer than the count and one holeSegment. A Linux
// client has room for that and no more: it cuts a longer reply, and reads again or reports EIO.
const leastHole = holeSegment + dataSegment + 4

// readPlus is READ_PLUS (RFC 7862 §15.10). Its data is part of the XDR stream and is never
// placed directly (RFC 8267 §6.1).
func readPlus(k *Compound, args *wire.ReadPlus4Args) Status {
	fs, f, s := k.borrowSparse(&args.Stateid, state.AccessRead)
	if s != wire.NFS4OK {
		return s
	}
	defer f.giveBack()
	if k.Room() < 8+dataSegment {
		return k.tooBig()
	}
	at := k.W.Len()
	k.W.Uint64(0) // patched at the end: the end-of-file flag, and the number of segments
	r := segments{k: k, fs: fs, f: f.File, at: args.Offset}
	r.end = args.Offset + min(uint64(args.Count), nfs.MaxTransfer, 1<<64-1-args.Offset)
	err := r.segmented()
	if errors.Is(err, errChanged) {
		// The file changed while its holes were looked up. The holes may be out of date, so
		// everything is sent as data.
		k.W.Truncate(at + 8)
		r = segments{k: k, fs: fs, f: f.File, at: args.Offset, end: r.end}
		err = r.data(r.end)
	}
	if err != nil {
		k.W.Truncate(at)
		return k.closedOr(err)
	}
	if r.eof {
		k.W.PatchUint32(at, 1)
	}
	k.W.PatchUint32(at+4, r.n)
	return wire.NFS4OK
}

var errChanged = errors.New("the file changed during READ_PLUS")

// A run is a part of a range that is a hole or data. It begins where the run before it ends.
type run struct {
	end  uint64
	hole bool
}

// segments writes the segments of a READ_PLUS. The fields at and end are offsets in the file: of
// the first byte of the next segment, and of the byte after the last segment.
type segments struct {
	k       *Compound
	fs      vfs.Sparse
	f       vfs.File
	at, end uint64
	n       uint32
	eof     bool
	size    uint64 // the file's size before the first segment
	full    bool   // the reply has no more room
}

// segmented writes alternating holes and data. It returns errChanged if the file changed meanwhile.
func (r *segments) segmented() error {
	k := r.k
	if err := k.FS().GetAttr(&k.Op, k.Current.Handle, &k.Attr); err != nil {
		return err
	}
	size, change := k.Attr.Size, k.Attr.Change
	r.size = size
	r.eof = r.at >= size
	if r.at >= size {
		return nil
	}
	r.end = min(r.end, size)
	if k.Attr.Used >= size {
		// The file has no holes. Seek would look for the next hole through the whole file,
		// which may cost as much as reading it.
		return r.data(r.end)
	}
	var space [maxSegments]run
	layout, err := r.layout(space[:0])
	for i := 0; i < len(layout) && err == nil && !r.full; i++ {
		if layout[i].hole {
			r.hole(layout[i].end)
		} else {
			err = r.data(layout[i].end)
		}
	}
	if err != nil {
		return err
	}
	if err := k.FS().GetAttr(&k.Op, k.Current.Handle, &k.Attr); err != nil {
		return err
	}
	if k.Attr.Change != change {
		return errChanged
	}
	return nil
}

// layout appends the runs of the range, or of its first part, to runs, which is empty. No two of the same
// kind follow each other. All of the layout is looked up before a byte is read, because a read may
// turn a hole into data: see vfs.Sparse.Seek. layout returns errChanged if two looks contradict each other.
func (r *segments) layout(runs []run) ([]run, error) {
	at := r.at
	for range maxSegments {
		if at >= r.end {
			break
		}
		hole := false
		next, eof, err := r.fs.Seek(&r.k.Op, r.f, at, vfs.SeekData)
		switch {
		case err == nil && eof:
			next, hole = r.size, true
		case err == nil && next > at:
			hole = true
		case err == nil:
			next, _, err = r.fs.Seek(&r.k.Op, r.f, at, vfs.SeekHole)
		}
		if errors.Is(err, syscall.ENXIO) || err == nil && next <= at {
			return nil, errChanged
		}
		if err != nil {
			return nil, err
		}
		next = min(next, r.end)
		hole = hole && next-at >= leastHole
		if last := len(runs) - 1; last >= 0 && runs[last].hole == hole {
			runs[last].end = next
		} else {
			runs = append(runs, run{next, hole})
		}
		at = next
	}
	return runs, nil
}

// hole writes a hole segment from the offset r.at to the offset end.
func (r *segments) hole(end uint64) {
	if r.k.Room() < holeSegment {
		r.full = true
		return
	}
	h := wire.ReadPlusContent{Content: wire.NFS4ContentHole, Hole: wire.DataInfo4{Offset: r.at, Length: end - r.at}}
	h.Encode(r.k.W)
	r.at = end
	r.n++
	r.eof = end >= r.size
}

// data reads the bytes from the offset r.at to the offset end, as far as the reply has room, and
// writes one data segment. Its length, its bytes and the end-of-file flag come from one Read.
func (r *segments) data(end uint64) error {
	k := r.k
	room := k.Room() - dataSegment
	if room <= 0 {
		r.full = true
		return nil
	}
	from := k.W.Len()
	k.W.Uint32(uint32(wire.NFS4ContentData))
	k.W.Uint64(r.at)
	k.W.Uint32(0)
	want := int(min(end-r.at, uint64(room&^3)))
	buf := k.W.Reserve((want + 3) &^ 3)
	n, eof, err := r.f.Read(&k.Op, r.at, buf[:want], &k.Attr)
	if err != nil {
		return err
	}
	clear(buf[n:])
	k.W.Truncate(from + dataSegment + (n+3)&^3)
	k.W.PatchUint32(from+4+8, uint32(n))
	r.full = r.full || r.at+uint64(n) < end
	r.at += uint64(n)
	r.n++
	r.eof = eof
	k.Current.Export.DidRead(k.Call.Conn, n)
	return nil
}
