package bench

import (
	"fmt"
	"maps"
	"slices"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// A workload is the operation that a bench repeats with NFS version 3.
type workload struct {
	kind
	// procedures are the calls of one operation, in order.
	procedures []nfs3wire.Procedure
	// stable is the stability that WRITEs ask for.
	stable nfs3wire.StableHow
	// args writes the arguments of the current call.
	args func(s *slot3, w *xdr.Writer)
	// answer checks a reply: see requester.
	answer func(s *slot3, d *xdr.Decoder) (n int, err error)
}

// The calls of READ and WRITE workloads of NFS version 3, and the kinds of these workloads for all
// versions.
var (
	reads       = []nfs3wire.Procedure{nfs3wire.ProcRead}
	writes      = []nfs3wire.Procedure{nfs3wire.ProcWrite}
	readFilled  = kind{needs: groundFilled, data: true, next: (*slot).sequential}
	readRandom  = kind{needs: groundFilled, data: true, next: (*slot).random}
	writeOwn    = kind{needs: groundOwn, data: true, writes: true, next: (*slot).sequential}
	writeRandom = kind{needs: groundOwn, data: true, writes: true, next: (*slot).random}
)

// workloads has the workloads of NFS version 3, by name.
var workloads = map[string]*workload{
	"null": {
		procedures: []nfs3wire.Procedure{nfs3wire.ProcNull},
		args:       func(*slot3, *xdr.Writer) {},
		answer:     func(*slot3, *xdr.Decoder) (int, error) { return 0, nil },
	},
	"getattr": {
		kind: kind{needs: groundShared}, procedures: []nfs3wire.Procedure{nfs3wire.ProcGetattr},
		args: func(s *slot3, w *xdr.Writer) { w.Opaque(s.c.file.handle) }, answer: gotStatus,
	},
	"read":      {kind: readFilled, procedures: reads, args: putRead, answer: gotRead},
	"randread":  {kind: readRandom, procedures: reads, args: putRead, answer: gotRead},
	"write":     {kind: writeOwn, procedures: writes, args: putWrite, answer: gotWrite},
	"randwrite": {kind: writeRandom, procedures: writes, args: putWrite, answer: gotWrite},
	"syncwrite": {kind: writeRandom, procedures: writes, stable: nfs3wire.FileSync, args: putWrite, answer: gotWrite},
	// One operation is a CREATE of a file and its REMOVE.
	"create": {
		kind:       kind{needs: groundEmpty, requests: 2, next: (*slot).rename},
		procedures: []nfs3wire.Procedure{nfs3wire.ProcCreate, nfs3wire.ProcRemove},
		args: func(s *slot3, w *xdr.Writer) {
			w.Opaque(s.c.file.handle)
			w.Opaque(s.name)
			if s.step == 0 {
				newFile.Encode(w)
			}
		},
		answer: gotStatus,
	},
	// One operation is a READDIRPLUS. After the end of the listing, the next operation begins the
	// listing anew.
	"readdirplus": {
		kind:       kind{needs: groundListed, entry: "a-file-with-a-name-of-usual-length-%06d"},
		procedures: []nfs3wire.Procedure{nfs3wire.ProcReaddirPlus},
		args: func(s *slot3, w *xdr.Writer) {
			w.Opaque(s.c.file.handle)
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

func gotStatus(s *slot3, d *xdr.Decoder) (int, error) { return 0, s.status(d) }

func putRead(s *slot3, w *xdr.Writer) {
	w.Opaque(s.c.file.handle)
	w.Uint64(s.offset)
	w.Uint32(uint32(len(s.buf)))
}

func gotRead(s *slot3, d *xdr.Decoder) (int, error) {
	s.read.Decode(d)
	if err := s.outcome(d, s.read.Status); err != nil {
		return 0, err
	}
	n, _, err := client.TakeReadData(&s.read.ResOK, s.buf)
	if err == nil && n < len(s.buf) {
		err = s.errShort(n)
	}
	return n, err
}

func putWrite(s *slot3, w *xdr.Writer) {
	w.Opaque(s.c.file.handle)
	w.Uint64(s.offset)
	w.Uint32(uint32(len(s.buf)))
	w.Int32(int32(s.work.stable))
	w.Payload(s.buf, true, nil)
}

func gotWrite(s *slot3, d *xdr.Decoder) (int, error) {
	if err := s.status(d); err != nil {
		return 0, err
	}
	var wcc nfs3wire.WccData
	wcc.Decode(d)
	n, committed := int(d.Uint32()), nfs3wire.StableHow(d.Int32())
	switch {
	case d.Err() != nil:
		return 0, fmt.Errorf("%w: %w", rpc.ErrBadReply, d.Err())
	case n != len(s.buf):
		return 0, fmt.Errorf("bench: WRITE of %d bytes wrote %d", len(s.buf), n)
	case committed < s.work.stable:
		return 0, fmt.Errorf("%w: a WRITE that asked for %v was %v", rpc.ErrBadReply, s.work.stable, committed)
	}
	return n, nil
}

func gotReaddirPlus(s *slot3, d *xdr.Decoder) (int, error) {
	size := d.Len()
	s.list.Decode(d)
	if err := s.outcome(d, s.list.Status); err != nil {
		return 0, err
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
		return 0, fmt.Errorf("%w: a listing that does not go on and does not end", rpc.ErrBadReply)
	}
	s.c.entries.Add(int64(entries))
	return size, nil
}
