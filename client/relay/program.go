package relay

import (
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
)

// A program serves the calls of all programs but rpcbind by sending them on. It
// implements rpc.Fallback.
type program struct {
	relay *Relay
	rows  rows
}

// Procedure implements rpc.Fallback.
func (p *program) Procedure(program, version, procedure uint32) *rpc.Procedure {
	return p.rows.of(program, version, procedure)
}

// Judge implements rpc.Fallback. The server decides on calls. The relay knows nothing
// that a stranger could not have, so that each peer that makes a call counts as known.
func (p *program) Judge(_ *rpc.Arrived, j *rpc.Judgement) rpc.Outcome {
	j.Known = true
	return rpc.Done
}

// Serve implements rpc.Fallback: it sends the call on. The server's reply completes
// it.
func (p *program) Serve(c *rpc.Call, _ *xdr.Writer) rpc.Outcome {
	s := p.relay.sessionOf(c.Conn)
	if s == nil {
		return rpc.Dropped // the connection has ended
	}
	c.Detach()
	f := newForward()
	if !f.take(c, p.rows.of(c.Header.Program, c.Header.Version, c.Header.Procedure)) {
		f.free()
		return rpc.SystemErr
	}
	f.session = s
	s.calls.Add(1)
	if c.Header.Program == mount3wire.Program {
		s.mount.carry(f)
	} else {
		s.nfs.carry(f)
	}
	return rpc.Outcome{Pending: true}
}
