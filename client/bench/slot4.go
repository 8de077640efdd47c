package bench

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A slot4 is a worker for NFS version 4: it keeps one request in progress. The goroutine that takes
// the reply sends the next request, and allocates no memory between the two.
type slot4 struct {
	b    *bench
	c    *conn
	at   file4
	work *workload4
	k    client.Compound

	began time.Duration // since the bench's start
	buf   []byte
	sinks [1][]byte
	ops   [3]client.Op
	draw  *rand.Rand

	// The state of the operation in progress.
	step   int
	name   []byte // for the workload create: the file's name
	serial uint64

	// Arguments and results are fields, so that a request allocates no memory.
	fh       wire.PutFH4Args
	read     wire.Read4Args
	readRes  wire.Read4Res
	write    wire.Write4Args
	writeRes wire.Write4Res
	getattr  wire.Getattr4Args
	attrRes  wire.Getattr4Res
	open     wire.Open4Args
	reopen   wire.Open4Args // OPEN of an existing file
	openRes  wire.Open4Res
	list     wire.Readdir4Args
	listRes  wire.Readdir4Res
	entry    wire.Entry4
	getFH    wire.GetFH4Res
	close    wire.Close4Args
	closeRes wire.Close4Res
	remove   wire.Remove4Args
	rmRes    wire.Remove4Res
	made     [wire.NFS4FHSize]byte // the handle of the file that create has made
}

// statAttributes are the attributes that NFS clients usually ask for after a READ or WRITE.
var statAttributes = wire.Bits(
	wire.Fattr4Type, wire.Fattr4Change, wire.Fattr4Size, wire.Fattr4FSID, wire.Fattr4FileID, wire.Fattr4Mode,
	wire.Fattr4Numlinks, wire.Fattr4SpaceUsed, wire.Fattr4TimeAccess, wire.Fattr4TimeMetadata, wire.Fattr4TimeModify,
)

// listAttributes are the attributes that NFS clients usually ask for in a listing, in addition to
// statAttributes.
var listAttributes = wire.Bits(wire.Fattr4Filehandle, wire.Fattr4RdattrError, wire.Fattr4Owner, wire.Fattr4OwnerGroup, wire.Fattr4Rawdev, wire.Fattr4MountedOnFileID)

// maxSlotResults is an upper bound for the size of any workload's results without data, in bytes.
const maxSlotResults = 1024

func newSlot4(b *bench, c *conn, number int) *slot4 {
	s := &slot4{b: b, c: c, work: b.four.work}
	if b.needs != groundNone {
		s.at = b.four.opens[c.number]
	}
	s.draw = rand.New(rand.NewPCG(uint64(c.number), uint64(number)))
	if s.work.data {
		s.buf = make([]byte, b.cfg.Size)
		s.sinks[0] = s.buf
	}
	s.name = fmt.Appendf(make([]byte, 0, 64), "c%d-s%d-", c.number, number)
	s.fh.Object = wire.NFSFH4(s.at.handle)
	s.getattr.AttrRequest = statAttributes
	s.open = wire.Open4Args{
		ShareAccess: wire.Open4ShareAccessWrite | wire.Open4ShareAccessWantNoDeleg,
		Openhow: wire.Openflag4{Opentype: wire.Open4Create, How: wire.Createhow4{
			Mode: wire.Unchecked4, Createattrs: client.ModeAttribute(0o644),
		}},
		Claim: wire.OpenClaim4{Claim: wire.ClaimNull},
	}
	s.open.Owner.Owner = []byte(fmt.Sprint("bench ", c.number, " ", number))
	if b.four.session != nil {
		s.open.Owner.Clientid = b.four.session.ClientID()
	}
	s.reopen = s.open
	s.reopen.ShareAccess = wire.Open4ShareAccessRead | wire.Open4ShareAccessWantNoDeleg
	s.reopen.Openhow = wire.Openflag4{}
	s.reopen.Claim.File = wire.UTF8String(sharedFile)
	s.list.AttrRequest = statAttributes.Or(&listAttributes)
	s.k.MaxResults = maxSlotResults
	if s.work.lists {
		s.k.MaxResults += b.cfg.Size
	}
	s.k.Done = func(*client.Compound) { s.done() }
	return s
}

// begin starts the first operation.
func (s *slot4) begin() {
	if !s.b.claim() {
		s.b.running.Done()
		return
	}
	s.began = time.Since(s.b.start)
	s.next()
}

// next sends the first request of the next operation.
func (s *slot4) next() {
	s.step = 0
	s.work.next(s)
	s.send()
}

func (s *slot4) send() {
	s.k.Sinks = nil
	s.k.Ops = s.work.put(s, s.ops[:0])
	s.b.four.session.Start(&s.k)
}

// done takes a reply and sends the next request.
func (s *slot4) done() {
	n, more, err := 0, false, s.k.Err
	if err == nil {
		n, more, err = s.work.answer(s)
	}
	switch {
	case delayed4(err):
		s.c.delayed.Add(1)
		s.send()
		return
	case err != nil:
		s.b.fail(err)
		s.b.running.Done()
		return
	case more:
		s.step++
		s.send()
		return
	}
	now := s.b.took(s.c, s.began, n)
	if !s.b.claim() {
		s.b.running.Done()
		return
	}
	s.began = now
	s.next()
}

// delayed4 reports whether the server asked for a repetition of the request (NFS4ERR_DELAY).
func delayed4(err error) bool {
	if err == nil {
		return false
	}
	e, ok := errors.AsType[*client.OpError](err)
	return ok && e.Status == wire.NFS4ErrDelay
}

// rename chooses a file name that the slot has not used before.
func (s *slot4) rename() {
	s.serial++
	base := len(s.name)
	for base > 0 && s.name[base-1] != '-' {
		base--
	}
	s.name = strconv.AppendUint(s.name[:base], s.serial, 10)
}
