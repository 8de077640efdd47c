package bench

import (
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// A slot3 is a slot for NFS version 3.
type slot3 struct {
	slot
	work   *workload
	caller rpc.Caller
	x      rpc.Exchange

	cookie uint64
	verf   nfs3wire.CookieVerf3

	// Results are decoded into these fields, so that a call allocates no memory.
	read nfs3wire.Read3Res
	list nfs3wire.ReaddirPlus3Res
	item nfs3wire.EntryPlus3
}

// maxSlotArgs is the largest size of any workload's arguments without payload, in bytes.
const maxSlotArgs = 2*nfs3wire.FileHandle3MaxSize + 256

func newSlot3(b *bench, work *workload, caller rpc.Caller, c *conn, number int) *slot3 {
	s := &slot3{work: work, caller: caller}
	s.slot = newSlot(b, c, number, s)
	s.x.Program, s.x.Version, s.x.Cred = nfs3wire.Program, nfs3wire.Version, b.cfg.Cred
	s.x.MaxArgs = maxSlotArgs
	s.x.Args = func(w *xdr.Writer) { s.work.args(s, w) }
	s.x.Done = func(*rpc.Exchange) { s.done() }
	if work.procedures[0] == nfs3wire.ProcRead {
		s.x.Sinks, s.x.Locate = s.sinks[:], client.LocateReadData
	}
	return s
}

func (s *slot3) send() {
	p := s.work.procedures[s.step]
	s.x.Procedure, s.x.Binding = uint32(p), &nfs.Binding3.Procedures[p]
	s.caller.Start(&s.x)
}

func (s *slot3) answer() (int, error) {
	if s.x.Err != nil {
		return 0, s.x.Err
	}
	return s.work.answer(s, &s.x.Results)
}

// status reads the status at the start of results.
func (s *slot3) status(d *xdr.Decoder) error { return s.outcome(d, nfs3wire.NFSStat3(d.Int32())) }

// outcome returns the error of a call whose results, with this status, were decoded from d.
func (s *slot3) outcome(d *xdr.Decoder, status nfs3wire.NFSStat3) error {
	switch {
	case d.Err() != nil:
		return fmt.Errorf("%w: %w", rpc.ErrBadReply, d.Err())
	case status != nfs3wire.NFS3OK:
		return &client.StatusError{Procedure: nfs3wire.Procedure(s.x.Procedure), Status: status}
	}
	return nil
}
