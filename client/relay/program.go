package relay

import (
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// A program relays the calls of all programs except rpcbind to the server. It implements
// rpc.Fallback.
type program struct {
	relay *Relay
	rows  rows
}

// Procedure implements rpc.Fallback.
func (p *program) Procedure(program, version, procedure uint32) *rpc.Procedure {
	return p.rows.of(program, version, procedure)
}

// Judge implements rpc.Fallback. The relay accepts almost all calls, because the server decides
// which calls it allows. It sets Judgement.Known for each of them, so that the transport treats
// every client as one that has proved to be an NFS client. There is one exception. With
// Target.Security all clients act as the relay's principal; so if the client's port is not
// privileged, the relay refuses the calls that Target.Security protects, unless Config.Insecure is
// set.
func (p *program) Judge(a *rpc.Arrived, j *rpc.Judgement) rpc.Outcome {
	cfg := &p.relay.cfg
	if cfg.Target.Security != nil && !cfg.Insecure && !a.Conn.Privileged && protected(a.Header.Program) {
		return rpc.Denied(rpc.AuthTooWeak)
	}
	j.Known = true
	return rpc.Done
}

// nfsACL is the program for access control lists of NFS versions 2 and 3.
const nfsACL = 100227

// protected reports whether the relay makes calls of a program under Target.Security. It does so
// for the programs whose calls access files. It relays the calls of other programs unchanged,
// because clients that use Kerberos do not use it for those programs either.
func protected(program uint32) bool { return program == nfs3wire.Program || program == nfsACL }

// Serve implements rpc.Fallback. It sends the call to the server; the server's reply completes
// the call.
func (p *program) Serve(c *rpc.Call, _ *xdr.Writer) rpc.Outcome {
	s := p.relay.sessionOf(c.Conn)
	if s == nil {
		return rpc.Dropped // the connection has ended
	}
	c.Detach()
	f := newForward(c, p.rows.of(c.Header.Program, c.Header.Version, c.Header.Procedure))
	if f == nil {
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
