package nfs3

import (
	"errors"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
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
	case !o.Export.Serves(a.Conn):
		return early(j, &noAccess)
	case o.Export.ReadOnly && changes(proc, j):
		return early(j, &readOnly)
	}
	j.Known = true
	j.Subject = o
	j.Lane = o.Export.FS.Lane()
	return rpc.Done
}

// changes says whether a procedure changes a file system, or the state of a file on
// its medium.
func changes(p wire.Procedure, j *rpc.Judgement) bool {
	return j.Repeat != rpc.Anytime || p == wire.ProcCommit
}

// A refusal is the Subject of a call that is answered early: its status.
type refusal wire.NFSStat3

var (
	stale     = refusal(wire.NFS3ErrStale)
	badHandle = refusal(wire.NFS3ErrBadHandle)
	noAccess  = refusal(wire.NFS3ErrAccess)
	readOnly  = refusal(wire.NFS3ErrROFS)
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

// refuse answers a call that Judge turned away, with nothing but the status.
func refuse(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
	w.Uint32(uint32(*c.Subject.(*refusal)))
	for range absent[c.Header.Procedure] {
		w.Bool(false)
	}
	return rpc.Done
}
