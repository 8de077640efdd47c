package bench

import (
	"fmt"
	"maps"
	"slices"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A workload4 is the operation that a bench repeats with NFS version 4.
type workload4 struct {
	kind
	// stable is the stability that WRITEs ask for.
	stable wire.StableHow4
	// put appends the operations of the current request to ops.
	put func(s *slot4, ops []client.Op) []client.Op
	// answer checks the reply to a request that succeeded: see requester.
	answer func(s *slot4) (n int, err error)
}

// workloads4 has the workloads of NFS version 4, by name.
var workloads4 = map[string]*workload4{
	// The request has only the SEQUENCE.
	"null": {put: func(_ *slot4, ops []client.Op) []client.Op { return ops }, answer: nothing4},
	"getattr": {
		kind: kind{needs: groundShared},
		put: func(s *slot4, ops []client.Op) []client.Op {
			return append(ops, client.Op{Number: wire.OpPutFH, Args: &s.fh}, client.Op{Number: wire.OpGetattr, Args: &s.getattr, Res: &s.attrRes})
		},
		answer: nothing4,
	},
	"read":      {kind: readFilled, put: putRead4, answer: gotRead4},
	"randread":  {kind: readRandom, put: putRead4, answer: gotRead4},
	"write":     {kind: writeOwn, put: putWrite4, answer: gotWrite4},
	"randwrite": {kind: writeRandom, put: putWrite4, answer: gotWrite4},
	"syncwrite": {kind: writeRandom, stable: wire.FileSync4, put: putWrite4, answer: gotWrite4},
	// One operation is an OPEN of an existing file, and its CLOSE.
	"open": {kind: kind{needs: groundShared, requests: 2}, put: putOpen4, answer: gotOpen4},
	// One operation is a READDIR. After the end of the listing, the next operation begins the
	// listing anew.
	"readdir": {kind: kind{needs: groundListed, entry: "entry-%06d"}, put: putReaddir4, answer: gotReaddir4},
	// One operation is an OPEN that makes a file, its CLOSE, and the REMOVE.
	"create": {kind: kind{needs: groundEmpty, requests: 3, next: (*slot).rename}, put: putCreate4, answer: gotCreate4},
}

// Workloads4 returns the values that Config.Workload may have with NFS version 4.
func Workloads4() []string { return slices.Sorted(maps.Keys(workloads4)) }

func nothing4(*slot4) (int, error) { return 0, nil }

// withAttributes appends a GETATTR, unless Config.NoAttributes is set.
func (s *slot4) withAttributes(ops []client.Op) []client.Op {
	if s.b.cfg.NoAttributes {
		return ops
	}
	return append(ops, client.Op{Number: wire.OpGetattr, Args: &s.getattr, Res: &s.attrRes})
}

func putRead4(s *slot4, ops []client.Op) []client.Op {
	s.read.Stateid, s.read.Offset, s.read.Count = s.c.file.open, s.offset, uint32(len(s.buf))
	s.k.Sinks = s.sinks[:]
	return s.withAttributes(append(ops, client.Op{Number: wire.OpPutFH, Args: &s.fh}, client.Op{Number: wire.OpRead, Args: &s.read, Res: &s.readRes}))
}

func gotRead4(s *slot4) (int, error) {
	n, _, err := client.TakeRead4Data(&s.readRes.ResOK, s.buf)
	if err == nil && n < len(s.buf) {
		err = s.errShort(n)
	}
	return n, err
}

func putWrite4(s *slot4, ops []client.Op) []client.Op {
	s.write.Stateid, s.write.Offset, s.write.Stable, s.write.Data.Data = s.c.file.open, s.offset, s.work.stable, s.buf
	return s.withAttributes(append(ops, client.Op{Number: wire.OpPutFH, Args: &s.fh}, client.Op{Number: wire.OpWrite, Args: &s.write, Res: &s.writeRes}))
}

func gotWrite4(s *slot4) (int, error) {
	if n := s.writeRes.ResOK.Count; int64(n) != int64(len(s.buf)) {
		return 0, fmt.Errorf("bench: WRITE of %d bytes wrote %d", len(s.buf), n)
	}
	if committed := s.writeRes.ResOK.Committed; committed < s.work.stable {
		return 0, fmt.Errorf("%w: a WRITE that asked for %v was %v", rpc.ErrBadReply, s.work.stable, committed)
	}
	return len(s.buf), nil
}

func putOpen4(s *slot4, ops []client.Op) []client.Op {
	s.k.Cache = true
	if s.step == stepOpen {
		s.fh.Object = wire.NFSFH4(s.b.dir)
		return append(ops, client.Op{Number: wire.OpPutFH, Args: &s.fh}, client.Op{Number: wire.OpOpen, Args: &s.reopen, Res: &s.openRes})
	}
	s.fh.Object = wire.NFSFH4(s.c.file.handle)
	return append(ops, client.Op{Number: wire.OpPutFH, Args: &s.fh}, client.Op{Number: wire.OpClose, Args: &s.close, Res: &s.closeRes})
}

func gotOpen4(s *slot4) (int, error) {
	if s.step == stepOpen {
		s.close.OpenStateid = s.openRes.ResOK.Stateid
	}
	return 0, nil
}

func putReaddir4(s *slot4, ops []client.Op) []client.Op {
	s.list.Dircount, s.list.Maxcount = uint32(s.b.cfg.Size), uint32(s.b.cfg.Size)
	return append(ops, client.Op{Number: wire.OpPutFH, Args: &s.fh}, client.Op{Number: wire.OpReaddir, Args: &s.list, Res: &s.listRes})
}

func gotReaddir4(s *slot4) (size int, err error) {
	res := &s.listRes.ResOK
	s.list.Cookieverf = res.Cookieverf
	entries := 0
	for res.Reply.Entries.Next(&s.entry) {
		s.list.Cookie = s.entry.Cookie
		size += len(s.entry.Name) + len(s.entry.Attrs.AttrVals)
		entries++
	}
	switch {
	case res.Reply.EOF:
		s.list.Cookie, s.list.Cookieverf = 0, wire.Verifier4{}
	case entries == 0:
		return 0, fmt.Errorf("%w: a listing that does not go on and does not end", rpc.ErrBadReply)
	}
	s.c.entries.Add(int64(entries))
	return size, nil
}

// Steps of the workload create. The workload open has the first two.
const (
	stepOpen = iota
	stepClose
	stepRemove
)

func putCreate4(s *slot4, ops []client.Op) []client.Op {
	s.k.Cache = true
	switch s.step {
	case stepOpen:
		s.fh.Object = wire.NFSFH4(s.c.file.handle)
		s.open.Claim.File = s.name
		return append(ops, client.Op{Number: wire.OpPutFH, Args: &s.fh}, client.Op{Number: wire.OpOpen, Args: &s.open, Res: &s.openRes},
			client.Op{Number: wire.OpGetFH, Res: &s.getFH})
	case stepClose:
		return append(ops, client.Op{Number: wire.OpPutFH, Args: &s.fh}, client.Op{Number: wire.OpClose, Args: &s.close, Res: &s.closeRes})
	}
	s.fh.Object = wire.NFSFH4(s.c.file.handle)
	s.remove.Target = s.name
	return append(ops, client.Op{Number: wire.OpPutFH, Args: &s.fh}, client.Op{Number: wire.OpRemove, Args: &s.remove, Res: &s.rmRes})
}

func gotCreate4(s *slot4) (int, error) {
	if s.step == stepOpen {
		s.close.OpenStateid = s.openRes.ResOK.Stateid
		s.fh.Object = s.made[:copy(s.made[:], s.getFH.ResOK.Object)]
	}
	return 0, nil
}
