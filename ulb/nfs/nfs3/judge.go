package nfs3

import (
	"errors"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Judge looks at the handle that every procedure but NULL begins with: whether it is
// one of ours, and whether its export serves this client, by this kind of port, for
// this kind of call. What comes with a handle that does not stand the test is
// answered at once: nothing is reserved or brought for a stranger.
func (p *Program) Judge(a *rpc.Arrived, j *rpc.Judgement) rpc.Outcome {
	proc := wire.Procedure(a.Header.Procedure)
	if proc == wire.ProcNull {
		return rpc.Done
	}
	o, err := p.exports.Find(j.Object)
	switch {
	case errors.Is(err, export.ErrGone):
		return early(j, &stale)
	case err != nil:
		return early(j, &badHandle)
	}
	if why := refusalOf(o.Export, a.Conn, proc); why != nil {
		return early(j, why)
	}
	if !admits(o.Export, o.Handle, a.Conn, &a.Cred, proc) {
		p.exports.RefusedFlavor(a.Conn, o.Export, &a.Cred)
		return rpc.Denied(rpc.AuthTooWeak)
	}
	if refuses(o.Export, o.Handle, &a.Cred, proc) {
		p.exports.RefusedPrincipal(a.Conn, o.Export, &a.Cred)
		return early(j, &noAccess)
	}
	j.Known = true
	if p.exports.Delays(o.Export, &a.Cred) {
		return early(j, &later)
	}
	j.Subject = o
	j.Lane = o.Export.FS.Lane()
	return rpc.Done
}

// refusalOf says why an export does not serve a call of a connection, or nil.
func refusalOf(e *export.Export, c *rpc.Conn, p wire.Procedure) *refusal {
	switch {
	case !e.Serves(c):
		return &noAccess
	case e.ReadOnly && changes(p):
		return &readOnly
	}
	return nil
}

// admits says whether an export takes a caller by its flavor. What a client asks when it
// mounts, before it has a user's credentials, is answered under any (RFC 2623 §2.3.2).
func admits(e *export.Export, h vfs.Handle, c *rpc.Conn, cred *rpc.Cred, p wire.Procedure) bool {
	return e.Admits(c, cred) || mounting(e, h, p)
}

// refuses says whether an export refuses a caller for want of an account.
func refuses(e *export.Export, h vfs.Handle, cred *rpc.Cred, p wire.Procedure) bool {
	return e.Refuses(cred) && !mounting(e, h, p)
}

// mounting says whether a call is one that a client makes when it mounts.
func mounting(e *export.Export, h vfs.Handle, p wire.Procedure) bool {
	return (p == wire.ProcFsinfo || p == wire.ProcGetattr || p == wire.ProcFsstat) && h == e.FS.Root()
}

// changes says whether a procedure changes a file system, or the state of a file on
// its medium.
func changes(p wire.Procedure) bool {
	return nfs.Binding3.Procedures[p].Once || p == wire.ProcCommit
}

// enter enters the export of the call. It may have been replaced, or be gone, since the
// call was judged, or be a mount that is asleep: then what there is now decides. blocks:
// it has to be woken, and the call may not wait for that.
func (p *Program) enter(c *rpc.Call, o *export.Opened) (e *export.Export, why *refusal, blocks bool) {
	for e = o.Export; ; {
		if e.Enter(c.Conn) {
			return e, nil, false
		}
		now, err := p.exports.Awake(e, c.Try)
		switch {
		case blocked(err):
			return e, nil, true
		case errors.Is(err, syscall.ESTALE):
			return nil, &stale, false
		case err != nil:
			return nil, &later, false
		}
		e = now
		proc := wire.Procedure(c.Header.Procedure)
		if why := refusalOf(e, c.Conn, proc); why != nil {
			return nil, why, false
		}
		if !admits(e, o.Handle, c.Conn, &c.Cred, proc) || refuses(e, o.Handle, &c.Cred, proc) {
			return nil, &noAccess, false
		}
	}
}

// A refusal is the Subject of a call that is answered early: its status.
type refusal wire.NFSStat3

var (
	stale     = refusal(wire.NFS3ErrStale)
	badHandle = refusal(wire.NFS3ErrBadHandle)
	noAccess  = refusal(wire.NFS3ErrAccess)
	readOnly  = refusal(wire.NFS3ErrROFS)
	later     = refusal(wire.NFS3ErrJukebox)
)

func early(j *rpc.Judgement, why *refusal) rpc.Outcome {
	j.Early, j.Subject = true, why
	return rpc.Done
}

// absent is how many optional items follow the status in the results of a procedure
// that failed (RFC 1813 §3.3): attributes, and attributes before and after.
var absent = [...]int{
	wire.ProcSetattr: 2, wire.ProcLookup: 1, wire.ProcAccess: 1, wire.ProcReadlink: 1, wire.ProcRead: 1,
	wire.ProcWrite: 2, wire.ProcCreate: 2, wire.ProcMkdir: 2, wire.ProcSymlink: 2, wire.ProcMknod: 2,
	wire.ProcRemove: 2, wire.ProcRmdir: 2, wire.ProcRename: 4, wire.ProcLink: 3,
	wire.ProcReaddir: 1, wire.ProcReaddirPlus: 1,
	wire.ProcFsstat: 1, wire.ProcFsinfo: 1, wire.ProcPathconf: 1, wire.ProcCommit: 2,
}

// refuse answers a call with nothing but a status.
func refuse(c *rpc.Call, w *xdr.Writer, why *refusal) rpc.Outcome {
	w.Uint32(uint32(*why))
	for range absent[c.Header.Procedure] {
		w.Bool(false)
	}
	return rpc.Done
}
