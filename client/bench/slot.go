package bench

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// A slot is a worker for NFS version 3: it keeps one call in progress. The goroutine that takes the
// reply sends the next call, and allocates no memory between the two.
type slot struct {
	b    *bench
	c    *conn
	x    rpc.Exchange
	work *workload

	began time.Duration // since the bench's start
	buf   []byte
	sinks [1][]byte
	draw  *rand.Rand

	// The state of the operation in progress.
	offset uint64
	second bool   // for the workload create: the file is made, and the present call removes it
	name   []byte // for the workload create: the file's name
	serial uint64
	cookie uint64
	verf   nfs3wire.CookieVerf3

	// Results are decoded into these fields, so that a call allocates no memory.
	read nfs3wire.Read3Res
	list nfs3wire.ReaddirPlus3Res
	item nfs3wire.EntryPlus3
}

func newSlot(b *bench, c *conn, number int) *slot {
	s := &slot{b: b, c: c, work: b.work}
	s.draw = rand.New(rand.NewPCG(uint64(c.number), uint64(number)))
	if s.work.data {
		s.buf = make([]byte, b.cfg.Size)
		s.sinks[0] = s.buf
	}
	s.name = fmt.Appendf(make([]byte, 0, 64), "c%d-s%d-", c.number, number)
	s.x.Program, s.x.Version = nfs3wire.Program, nfs3wire.Version
	s.x.Cred = b.cfg.Cred
	s.x.Args = func(w *xdr.Writer) { s.work.args(s, w) }
	s.x.Done = func(*rpc.Exchange) { s.done() }
	s.procedure(s.work.procedure)
	return s
}

// procedure sets up the exchange for calls of the procedure p.
func (s *slot) procedure(p nfs3wire.Procedure) {
	s.x.Procedure = uint32(p)
	s.x.Binding = &nfs.Binding3.Procedures[p]
	s.x.MaxArgs = maxSlotArgs
	s.x.Sinks, s.x.Locate = nil, nil
	if p == nfs3wire.ProcRead {
		s.x.Sinks, s.x.Locate = s.sinks[:], client.LocateReadData
	}
}

// maxSlotArgs is the largest size of any workload's arguments without payload, in bytes.
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

// done takes a reply and sends the next call.
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
	now := s.b.took(s.c, s.began, n)
	if !s.b.claim() {
		s.b.running.Done()
		return
	}
	s.began = now
	s.send()
}

// answer checks a reply. n is the number of payload bytes that the call moved; more means that
// the operation needs another call.
func (s *slot) answer() (n int, more bool, err error) {
	if s.x.Err != nil {
		return 0, false, s.x.Err
	}
	return s.work.answer(s, &s.x.Results)
}

// status reads the status at the start of results. It returns nil for NFS3_OK, and errDelayed for
// NFS3ERR_JUKEBOX.
func (s *slot) status(d *xdr.Decoder) error {
	switch status := nfs3wire.NFSStat3(d.Int32()); {
	case d.Err() != nil:
		return fmt.Errorf("%w: %w", rpc.ErrBadReply, d.Err())
	case status == nfs3wire.NFS3ErrJukebox:
		return errDelayed
	case status != nfs3wire.NFS3OK:
		return &client.StatusError{Procedure: nfs3wire.Procedure(s.x.Procedure), Status: status}
	}
	return nil
}

// rename chooses a file name that the slot has not used before.
func (s *slot) rename() {
	s.serial++
	base := len(s.name)
	for base > 0 && s.name[base-1] != '-' {
		base--
	}
	s.name = strconv.AppendUint(s.name[:base], s.serial, 10)
}
