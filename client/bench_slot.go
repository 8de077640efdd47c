package client

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// A slot keeps one call under way: when it is answered, the next goes out from
// where the answer was taken. Nothing is allocated between them.
type slot struct {
	b    *bench
	c    *benchConn
	x    rpc.Exchange
	work *workload

	began time.Duration // since the bench's start
	buf   []byte
	sinks [1][]byte
	draw  *rand.Rand

	// Of the operation under way.
	offset uint64
	second bool   // of create: the file is there and is removed
	name   []byte // of create
	serial uint64
	cookie uint64
	verf   nfs3wire.CookieVerf3

	// Decoded into, so that nothing escapes.
	read nfs3wire.Read3Res
	list nfs3wire.ReaddirPlus3Res
	item nfs3wire.EntryPlus3
}

func newSlot(b *bench, c *benchConn, number int) *slot {
	s := &slot{b: b, c: c, work: b.work}
	s.draw = rand.New(rand.NewPCG(uint64(c.number), uint64(number)))
	if s.work.data {
		s.buf = make([]byte, b.cfg.Size)
		s.sinks[0] = s.buf
	}
	s.name = fmt.Appendf(make([]byte, 0, 64), "c%d-s%d-", c.number, number)
	s.x.Program, s.x.Version = nfs3wire.Program, nfs3wire.Version
	s.x.Cred = c.target.Cred
	s.x.Args = func(w *xdr.Writer) { s.work.args(s, w) }
	s.x.Done = func(*rpc.Exchange) { s.done() }
	s.procedure(s.work.procedure)
	return s
}

// procedure makes the exchange one of p.
func (s *slot) procedure(p nfs3wire.Procedure) {
	s.x.Procedure = uint32(p)
	s.x.Binding = &nfs.Binding3.Procedures[p]
	s.x.MaxArgs = maxSlotArgs
	s.x.Sinks, s.x.Locate = nil, nil
	if p == nfs3wire.ProcRead {
		s.x.Sinks, s.x.Locate = s.sinks[:], LocateReadData
	}
}

// maxSlotArgs bounds the arguments of all workloads, without payload.
const maxSlotArgs = 2*nfs3wire.FileHandle3MaxSize + 256

// begin starts the first operation.
func (s *slot) begin() {
	if !s.b.claim() {
		s.b.running.Done()
		return
	}
	s.began = time.Since(s.b.start)
	s.send()
}

func (s *slot) send() {
	s.work.next(s)
	s.c.caller.Start(&s.x)
}

// done takes an answer and goes on.
func (s *slot) done() {
	n, more, err := s.answer()
	switch {
	case err == errDelayed:
		s.c.delayed.Add(1)
		s.c.caller.Start(&s.x)
		return
	case err != nil:
		s.b.fail(err)
		s.b.running.Done()
		return
	case more:
		s.c.caller.Start(&s.x)
		return
	}
	now := time.Since(s.b.start)
	s.c.times.add(int64(now - s.began))
	s.c.operations.Add(1)
	if n > 0 {
		s.c.bytes.Add(int64(n))
	}
	if !s.b.claim() {
		s.b.running.Done()
		return
	}
	s.began = now
	s.send()
}

// answer judges a reply: how many bytes of payload it moved, and whether the
// operation needs another call.
func (s *slot) answer() (n int, more bool, err error) {
	if s.x.Err != nil {
		return 0, false, s.x.Err
	}
	return s.work.answer(s, &s.x.Results)
}

// status judges the first word of results.
func (s *slot) status(d *xdr.Decoder) error {
	switch status := nfs3wire.NFSStat3(d.Int32()); {
	case d.Err() != nil:
		return fmt.Errorf("%w: %w", rpc.ErrBadReply, d.Err())
	case status == nfs3wire.NFS3ErrJukebox:
		return errDelayed
	case status != nfs3wire.NFS3OK:
		return &StatusError{nfs3wire.Procedure(s.x.Procedure), status}
	}
	return nil
}

// rename makes the slot's name one that was not used before.
func (s *slot) rename() {
	s.serial++
	base := len(s.name)
	for base > 0 && s.name[base-1] != '-' {
		base--
	}
	s.name = strconv.AppendUint(s.name[:base], s.serial, 10)
}
