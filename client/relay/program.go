package relay

import (
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
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
// that a stranger could not have, so that each peer that makes a call counts as known. Where
// it lends its own principal to its clients, it serves those alone that only a privileged
// user of a machine can be.
func (p *program) Judge(a *rpc.Arrived, j *rpc.Judgement) rpc.Outcome {
	cfg := &p.relay.cfg
	if cfg.Target.Security != nil && !cfg.Insecure && !a.Conn.Privileged && protected(a.Header.Program) {
		return rpc.Denied(rpc.AuthTooWeak)
	}
	j.Known = true
	return rpc.Done
}

// nfsACL is the program of access control lists beside NFS versions 2 and 3.
const nfsACL = 100227

// protected says whether calls of a program go under Target.Security: those that name files.
// Others go as they came, as those of clients with Kerberos do.
func protected(program uint32) bool { return program == nfs3wire.Program || program == nfsACL }

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
