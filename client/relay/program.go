package relay

import (
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
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
	if f.changes = c.Changes(); f.changes {
		s.began()
	}
	s.calls.Add(1)
	if c.Header.Program == mount3wire.Program {
		s.mount.carry(f)
	} else {
		s.nfs.carry(f)
	}
	return rpc.Outcome{Pending: true}
}

// rows has the rpc.Procedure of each call that the relay carries. An rpc.Procedure limits the
// sizes of arguments and results, and says whether the relay remembers the reply. For procedures
// of NFSv3 and MOUNT, the limits of results are those of their bindings.
//
// The relay sends a repeated call to the server under a new XID, so the server would execute it
// again. So the relay remembers replies and repeats them: those of procedures of NFSv3 and of
// compounds of NFSv4.0 that change something, and those of all procedures that it does not know. It
// does not do so for later minor versions, whose sessions detect repetitions (RFC 8881 §2.10.6).
type rows struct {
	nfs3, nfs4, mount3 []rpc.Procedure
	// null is procedure 0 of every program, which has no arguments and no results (RFC 5531 §12.1).
	// nfs, mount and other are for procedures that have no binding: those of NFS, of MOUNT, and of
	// other programs.
	null, nfs, mount, other rpc.Procedure
}

func newRows(maxReply int) rows {
	return rows{
		nfs3:   carried3(),
		nfs4:   carried4(maxReply),
		mount3: nfs.BindingMount3.Procedures,
		null:   rpc.Procedure{Name: "NULL", MaxArgs: maxRecord},
		mount:  rpc.Procedure{Name: "MOUNT", MaxArgs: maxRecord, MaxResults: nfs.MaxMountReply},
		nfs:    rpc.Procedure{Name: "NFS", MaxArgs: maxRecord, MaxResults: maxReply},
		other:  rpc.Procedure{Name: "OTHER", MaxArgs: maxRecord, MaxResults: maxReply, Once: true},
	}
}

// carried3 returns the procedures of NFSv3 for rows. Arguments may have any size up to maxRecord,
// because the server checks them. The text of READLINK counts in Shape.Words, not in Shape.Payload,
// because the relay copies it with the rest of the reply.
func carried3() []rpc.Procedure {
	all := make([]rpc.Procedure, len(nfs.Binding3.Procedures))
	for i, p := range nfs.Binding3.Procedures {
		p.MaxArgs = maxRecord
		if walk := p.Walk; nfs3wire.Procedure(i) == nfs3wire.ProcReadlink {
			p.Walk = func(args *xdr.Decoder, s *rpc.Shape) {
				walk(args, s)
				s.Words, s.Payload = s.Words+s.Payload, 0
			}
		}
		all[i] = p
	}
	return all
}

// carried4 returns the procedures of NFSv4 for rows. Of the binding it has only the answer to the
// question whether a compound changes something, which sessions do not protect.
func carried4(maxReply int) []rpc.Procedure {
	all := make([]rpc.Procedure, len(nfs.Binding4.Procedures))
	for i, p := range nfs.Binding4.Procedures {
		all[i] = rpc.Procedure{Name: p.Name, MaxArgs: maxRecord}
		if walk := p.Walk; walk != nil {
			all[i].MaxResults = maxReply
			all[i].Walk = func(args *xdr.Decoder, s *rpc.Shape) {
				var own rpc.Shape
				walk(args, &own)
				s.Once = own.Once
			}
		}
	}
	return all
}

// of returns the rpc.Procedure of a call.
func (r *rows) of(program, version, procedure uint32) *rpc.Procedure {
	row := &r.other
	known := []rpc.Procedure(nil)
	switch program {
	case mount3wire.Program:
		row = &r.mount
		if version == mount3wire.Version {
			known = r.mount3
		}
	case nfs3wire.Program:
		row = &r.nfs
		switch version {
		case nfs3wire.Version:
			known = r.nfs3
		case nfs4wire.Version:
			known = r.nfs4
		}
	}
	switch {
	case uint64(procedure) < uint64(len(known)) && known[procedure].Name != "":
		return &known[procedure]
	case procedure == 0:
		return &r.null
	}
	return row
}
