package nfs3

import (
	"errors"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Judge examines the file handle with which every procedure except NULL begins. It checks that this
// server has issued the handle, that the handle's export serves the caller's address and port and
// is writable if the procedure changes files, and that the export accepts the caller's flavor and
// identity. If a check fails, the call is answered at once, before the server reserves memory or
// fetches data for it.
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
	if why := refusalOf(o.Export, a.Conn, &a.Cred, proc); why != nil {
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

// refusalOf returns the reason why an export does not serve a call on a connection, or nil.
func refusalOf(e *export.Export, c *rpc.Conn, cred *rpc.Cred, p wire.Procedure) *refusal {
	switch {
	case !e.Serves(c, cred):
		return &noAccess
	case e.ReadOnly && changes(p):
		return &readOnly
	}
	return nil
}

// admits reports whether an export accepts a caller's flavor. The calls with which a client
// mounts (see mounting) are accepted under any flavor, because the client has no user's
// credential yet (RFC 2623 §2.3.2).
func admits(e *export.Export, h vfs.Handle, c *rpc.Conn, cred *rpc.Cred, p wire.Procedure) bool {
	return e.Admits(c, cred) || mounting(e, h, p)
}

// refuses reports whether an export refuses a caller because the caller has no account. It never
// refuses the calls with which a client mounts (see mounting).
func refuses(e *export.Export, h vfs.Handle, cred *rpc.Cred, p wire.Procedure) bool {
	return e.Refuses(cred) && !mounting(e, h, p)
}

// mounting reports whether a call is FSINFO, GETATTR or FSSTAT of the export's root, which a
// client makes while it mounts.
func mounting(e *export.Export, h vfs.Handle, p wire.Procedure) bool {
	return (p == wire.ProcFsinfo || p == wire.ProcGetattr || p == wire.ProcFsstat) && h == e.FS.Root()
}

// changes reports whether a procedure changes a file system, or brings a file's data to stable
// storage (COMMIT).
func changes(p wire.Procedure) bool {
	return nfs.Binding3.Procedures[p].Once || p == wire.ProcCommit
}

// enter marks the export of the call as in use (export.Export.Enter). Since Judge, the export may
// have been replaced or removed, or the file system of an idle mount may have been closed. In these
// cases enter repeats the checks of Judge with the present export. blocks is true if a file system
// must be opened and the call may not wait.
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
		if why := refusalOf(e, c.Conn, &c.Cred, proc); why != nil {
			return nil, why, false
		}
		if !admits(e, o.Handle, c.Conn, &c.Cred, proc) || refuses(e, o.Handle, &c.Cred, proc) {
			return nil, &noAccess, false
		}
	}
}

// A refusal is the status with which Serve answers a call that Judge has refused. Judge passes it
// to Serve as rpc.Judgement.Subject, and sets rpc.Judgement.Early.
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

// absent holds, by procedure, the number of optional items (attributes before or after)
// that follow the status in the result of a failed call (RFC 1813 §3.3).
var absent = [...]int{
	wire.ProcSetattr: 2, wire.ProcLookup: 1, wire.ProcAccess: 1, wire.ProcReadlink: 1, wire.ProcRead: 1,
	wire.ProcWrite: 2, wire.ProcCreate: 2, wire.ProcMkdir: 2, wire.ProcSymlink: 2, wire.ProcMknod: 2,
	wire.ProcRemove: 2, wire.ProcRmdir: 2, wire.ProcRename: 4, wire.ProcLink: 3,
	wire.ProcReaddir: 1, wire.ProcReaddirPlus: 1,
	wire.ProcFsstat: 1, wire.ProcFsinfo: 1, wire.ProcPathconf: 1, wire.ProcCommit: 2,
}

// refuse answers a call with a status and no attributes.
func refuse(c *rpc.Call, w *xdr.Writer, why *refusal) rpc.Outcome {
	w.Uint32(uint32(*why))
	for range absent[c.Header.Procedure] {
		w.Bool(false)
	}
	return rpc.Done
}

// Ask makes the program call m.Ask before each access to a file, because an NFSv4 client may
// have opened the file with a deny mode (RFC 8881 §9.7). It must be called before the program
// serves calls.
func (p *Program) Ask(m *state.Manager) { p.state = m }

// may returns nil if the caller may use the file h now. If name is not nil, h is a directory,
// and the file in question is the one of that name in h, if there is one.
//
// A denied call gets NFS3ERR_ACCES, as from Linux's server. With NFS3ERR_JUKEBOX the client
// would repeat the call, and its programs would hang, as long as another client has the file
// open. During the grace period after a restart, an NFSv4 client may still reclaim an open with
// a deny mode. During that period, calls that such an open would deny get NFS3ERR_JUKEBOX,
// because the period is short.
func (r *request) may(use state.Use, h vfs.Handle, name []byte) error {
	m := r.program.state
	if m == nil {
		return nil
	}
	i := state.Intent{Use: use, FS: r.fs(), File: h, Name: name, Op: &r.op, Version3: true}
	switch m.Ask(&i) {
	case state.Yes:
		return nil
	case state.AfterGrace:
		return vfs.ErrDelay
	case state.AfterWait:
		return vfs.ErrWouldBlock
	case state.Failed:
		return i.Err
	}
	return syscall.EACCES
}
