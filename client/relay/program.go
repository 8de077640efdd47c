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

// Judge implements rpc.Fallback. The server decides on calls. The relay keeps no secrets
// from strangers, so each peer that makes a call counts as known. If the relay lends its
// own principal to its clients, it serves only clients on privileged ports, unless
// Config.Insecure is set.
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

// protected reports whether calls of a program are made under Target.Security: those of
// programs that name files. Other calls are relayed unchanged, as clients with Kerberos
// make them.
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
