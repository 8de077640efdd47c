package bench

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// errDelayed means that the server asked for a repetition of the call (NFS3ERR_JUKEBOX).
var errDelayed = errors.New("bench: the server asks to try again")

// A workload is the operation that a bench repeats.
type workload struct {
	procedure nfs3wire.Procedure
	// data is true if each slot needs a buffer of Config.Size bytes.
	data bool
	// stable is the stability that WRITEs ask for.
	stable nfs3wire.StableHow
	// needs is the kind of files that the bench makes for the workload.
	needs groundKind
	// next sets the slot up for its next operation, for example with an offset in the file.
	next func(s *slot)
	// args writes the arguments of the current call.
	args func(s *slot, w *xdr.Writer)
	// answer checks a reply: see slot.answer.
	answer func(s *slot, d *xdr.Decoder) (n int, more bool, err error)
}

// workloads has the workloads of NFS version 3, by name.
var workloads = map[string]*workload{
	"null": {
		procedure: nfs3wire.ProcNull,
		next:      func(*slot) {},
		args:      func(*slot, *xdr.Writer) {},
		answer:    func(*slot, *xdr.Decoder) (int, bool, error) { return 0, false, nil },
	},
	"getattr": {
		procedure: nfs3wire.ProcGetattr, needs: groundShared,
		next: func(*slot) {},
		args: func(s *slot, w *xdr.Writer) { w.Opaque(s.c.file) },
		answer: func(s *slot, d *xdr.Decoder) (int, bool, error) {
			return 0, false, s.status(d)
		},
	},
	"read":      {procedure: nfs3wire.ProcRead, data: true, needs: groundFilled, next: (*slot).sequential, args: putRead, answer: gotRead},
	"randread":  {procedure: nfs3wire.ProcRead, data: true, needs: groundFilled, next: (*slot).random, args: putRead, answer: gotRead},
	"write":     {procedure: nfs3wire.ProcWrite, data: true, needs: groundOwn, next: (*slot).sequential, args: putWrite, answer: gotWrite},
	"randwrite": {procedure: nfs3wire.ProcWrite, data: true, needs: groundOwn, next: (*slot).random, args: putWrite, answer: gotWrite},
	"syncwrite": {
		procedure: nfs3wire.ProcWrite, data: true, stable: nfs3wire.FileSync, needs: groundOwn,
		next: (*slot).random, args: putWrite, answer: gotWrite,
	},
	// One operation is a CREATE of a file and its REMOVE.
	"create": {
		procedure: nfs3wire.ProcCreate,
		needs:     groundEmpty,
		next: func(s *slot) {
			s.second = false
			s.rename()
			s.procedure(nfs3wire.ProcCreate)
		},
		args: func(s *slot, w *xdr.Writer) {
			w.Opaque(s.c.file)
			w.Opaque(s.name)
			if !s.second {
				s.b.how.Encode(w)
			}
		},
		answer: func(s *slot, d *xdr.Decoder) (int, bool, error) {
			if err := s.status(d); err != nil {
				return 0, false, err
			}
			if !s.second {
				s.second = true
				s.procedure(nfs3wire.ProcRemove)
				return 0, true, nil
			}
			return 0, false, nil
		},
	},
	// One operation is a READDIRPLUS. After the end of the listing, the next operation begins the
	// listing anew.
	"readdirplus": {
		procedure: nfs3wire.ProcReaddirPlus, needs: groundListed,
		next: func(*slot) {},
		args: func(s *slot, w *xdr.Writer) {
			w.Opaque(s.c.file)
			w.Uint64(s.cookie)
			w.FixedOpaque(s.verf[:])
			w.Uint32(uint32(s.b.cfg.Size))
			w.Uint32(uint32(s.b.cfg.Size))
		},
		answer: gotReaddirPlus,
	},
}

// Workloads returns the values that Config.Workload may have with NFS version 3.
func Workloads() []string { return slices.Sorted(maps.Keys(workloads)) }

// blocks returns how many READs or WRITEs of Config.Size bytes a file takes.
func (b *bench) blocks() uint64 { return max(uint64(b.cfg.FileSize)/uint64(b.cfg.Size), 1) }

func (s *slot) sequential() {
	s.offset = (s.c.cursor.Add(1) - 1) % s.b.blocks() * uint64(s.b.cfg.Size)
}

func (s *slot) random() { s.offset = s.draw.Uint64N(s.b.blocks()) * uint64(s.b.cfg.Size) }

func putRead(s *slot, w *xdr.Writer) {
	w.Opaque(s.c.file)
	w.Uint64(s.offset)
	w.Uint32(uint32(len(s.buf)))
}

func gotRead(s *slot, d *xdr.Decoder) (int, bool, error) {
	s.read.Decode(d)
	switch {
	case d.Err() != nil:
		return 0, false, fmt.Errorf("%w: %w", rpc.ErrBadReply, d.Err())
	case s.read.Status == nfs3wire.NFS3ErrJukebox:
		return 0, false, errDelayed
	case s.read.Status != nfs3wire.NFS3OK:
		return 0, false, &client.StatusError{Procedure: nfs3wire.ProcRead, Status: s.read.Status}
	}
	n, _, err := client.TakeReadData(&s.read.ResOK, s.buf)
	if err == nil && n < len(s.buf) {
		err = fmt.Errorf("bench: READ of %d bytes at %d gave %d: the file became shorter during the measurement", len(s.buf), s.offset, n)
	}
	return n, false, err
}

func putWrite(s *slot, w *xdr.Writer) {
	w.Opaque(s.c.file)
	w.Uint64(s.offset)
	w.Uint32(uint32(len(s.buf)))
	w.Int32(int32(s.work.stable))
	w.Payload(s.buf, true, nil)
}

func gotWrite(s *slot, d *xdr.Decoder) (int, bool, error) {
	if err := s.status(d); err != nil {
		return 0, false, err
	}
	var wcc nfs3wire.WccData
	wcc.Decode(d)
	n, committed := int(d.Uint32()), nfs3wire.StableHow(d.Int32())
	switch {
	case d.Err() != nil:
		return 0, false, fmt.Errorf("%w: %w", rpc.ErrBadReply, d.Err())
	case n != len(s.buf):
		return 0, false, fmt.Errorf("bench: WRITE of %d bytes wrote %d", len(s.buf), n)
	case committed < s.work.stable:
		return 0, false, fmt.Errorf("%w: a WRITE that was to be %v is %v", rpc.ErrBadReply, s.work.stable, committed)
	}
	return n, false, nil
}

func gotReaddirPlus(s *slot, d *xdr.Decoder) (int, bool, error) {
	size := d.Len()
	s.list.Decode(d)
	switch {
	case d.Err() != nil:
		return 0, false, fmt.Errorf("%w: %w", rpc.ErrBadReply, d.Err())
	case s.list.Status == nfs3wire.NFS3ErrJukebox:
		return 0, false, errDelayed
	case s.list.Status != nfs3wire.NFS3OK:
		return 0, false, &client.StatusError{Procedure: nfs3wire.ProcReaddirPlus, Status: s.list.Status}
	}
	res := &s.list.ResOK
	s.verf = res.CookieVerf
	entries := 0
	for res.Reply.Entries.Next(&s.item) {
		s.cookie = s.item.Cookie
		entries++
	}
	switch {
	case res.Reply.EOF:
		s.cookie, s.verf = 0, nfs3wire.CookieVerf3{}
	case entries == 0:
		return 0, false, fmt.Errorf("%w: a listing that does not go on and does not end", rpc.ErrBadReply)
	}
	s.c.entries.Add(int64(entries))
	return size, false, nil
}
