package nfs3

import (
	"errors"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/pseudo"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A Program serves NFS version 3.
type Program struct {
	exports  *export.Table
	state    *state.Manager // if nil, every access is allowed
	requests sync.Pool
	// names is the tree of names, which leads from an export to the mounts below it. If it is
	// nil, no call leads from an export into a mount.
	names *pseudo.FS
}

// New returns a program that serves exports.
func New(exports *export.Table) *Program {
	return &Program{
		exports:  exports,
		requests: sync.Pool{New: func() any { return new(request) }},
		names:    pseudo.Of(exports),
	}
}

// Number returns 100003.
func (p *Program) Number() uint32 { return wire.Program }

// Versions returns 3 and 3.
func (p *Program) Versions() (low, high uint32) { return wire.Version, wire.Version }

// Binding returns nfs.Binding3 for version 3.
func (p *Program) Binding(version uint32) *rpc.Binding {
	if version != wire.Version {
		return nil
	}
	return &nfs.Binding3
}

// A request holds the state of one call. Requests are pooled. Everything that a procedure
// passes to a file system by pointer is a field of request, so that a call allocates
// nothing.
type request struct {
	program *Program
	call    *rpc.Call
	args    *xdr.Decoder
	w       *xdr.Writer

	export *export.Export
	handle vfs.Handle
	looked export.Looked
	cred   vfs.Cred
	op     vfs.Op

	attr   vfs.Attr
	set    vfs.SetAttr
	guard  vfs.Time
	how    vfs.CreateHow
	data   [1][]byte
	sealed [export.MaxSealed]byte
	list   lister
	view   pseudo.View
}

// procedures holds the procedures by number. Each procedure decodes its arguments, does its
// work, encodes its results, and returns Done or another outcome.
var procedures = [...]func(*request) rpc.Outcome{
	wire.ProcNull:        func(*request) rpc.Outcome { return rpc.Done },
	wire.ProcGetattr:     (*request).getattr,
	wire.ProcSetattr:     (*request).setattr,
	wire.ProcLookup:      (*request).lookup,
	wire.ProcAccess:      (*request).access,
	wire.ProcReadlink:    (*request).readlink,
	wire.ProcRead:        (*request).read,
	wire.ProcWrite:       (*request).write,
	wire.ProcCreate:      (*request).create,
	wire.ProcMkdir:       (*request).mkdir,
	wire.ProcSymlink:     (*request).symlink,
	wire.ProcMknod:       (*request).mknod,
	wire.ProcRemove:      (*request).remove,
	wire.ProcRmdir:       (*request).rmdir,
	wire.ProcRename:      (*request).rename,
	wire.ProcLink:        (*request).link,
	wire.ProcReaddir:     (*request).readdir,
	wire.ProcReaddirPlus: (*request).readdirPlus,
	wire.ProcFsstat:      (*request).fsstat,
	wire.ProcFsinfo:      (*request).fsinfo,
	wire.ProcPathconf:    (*request).pathconf,
	wire.ProcCommit:      (*request).commit,
}

// Serve runs one procedure.
func (p *Program) Serve(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
	if c.Early {
		return refuse(c, w, c.Subject.(*refusal))
	}
	var e *export.Export
	var who export.Looked
	o, named := c.Subject.(*export.Opened)
	if named {
		var why *refusal
		var blocks bool
		switch e, why, blocks = p.enter(c, o); {
		case blocks:
			return rpc.WouldBlock(e.FS.Lane())
		case why != nil:
			return refuse(c, w, why)
		}
		if err := p.exports.Look(e, c.Conn, &c.Cred, &who); err != nil {
			lane := e.FS.Lane()
			e.Leave(c.Conn)
			return wait(c, w, lane, err)
		}
	}
	r := p.requests.Get().(*request)
	r.program, r.call, r.args, r.w = p, c, &c.Args, w
	r.op = vfs.Op{Cred: &r.cred, Try: c.Try}
	defer p.recycle(r)
	if named {
		r.export, r.handle = e, o.Handle
		r.op.Async = e.Async
		r.looked = who
		e.Identify(&c.Cred, &r.looked, &r.cred)
	}
	return procedures[c.Header.Procedure](r)
}

// wait handles a call whose caller could not be identified because of err. If err is an
// export.Pending, a look-up is running: when it has ended, the executor runs the call again. lane
// is the resource that the call may then wait for (rpc.Call.Resume). If err is another error, the
// client gets NFS3ERR_JUKEBOX.
func wait(c *rpc.Call, w *xdr.Writer, lane any, err error) rpc.Outcome {
	pending, ok := errors.AsType[export.Pending](err)
	if !ok {
		return refuse(c, w, &later)
	}
	c.Detach()
	pending.Await(func() { c.Resume(lane) })
	return rpc.Outcome{Pending: true}
}

// recycle calls Leave of the export, because the call no longer uses it, and returns r to the pool.
// It is deferred, so that it runs even if the procedure panics.
func (p *Program) recycle(r *request) {
	if r.export != nil {
		r.export.Leave(r.call.Conn)
	}
	r.program, r.call, r.args, r.w = nil, nil, nil, nil
	r.looked = export.Looked{}
	r.export, r.cred.Groups, r.data[0], r.list, r.view = nil, nil, nil, lister{}, pseudo.View{}
	p.requests.Put(r)
}

// openAlso returns the file that the call's second file handle names. If the file is in another
// export, the status is NFS3ERR_XDEV.
func (r *request) openAlso(fh wire.FileHandle3) (vfs.Handle, wire.NFSStat3) {
	o, err := r.program.exports.Find(fh.Data)
	switch {
	case errors.Is(err, export.ErrGone):
		return vfs.Handle{}, wire.NFS3ErrStale
	case err != nil:
		return vfs.Handle{}, wire.NFS3ErrBadHandle
	case o.Export.ID != r.export.ID: // by ID, because one of them may have been replaced meanwhile
		return vfs.Handle{}, wire.NFS3ErrXDev
	}
	return o.Handle, wire.NFS3OK
}

func (r *request) fs() vfs.FileSystem { return r.export.FS }

// block returns the outcome of a call with Try that would have had to wait.
func (r *request) block() rpc.Outcome { return rpc.WouldBlock(r.fs().Lane()) }

// seal returns the client's handle for a file system's handle. It is valid until the next call of
// seal or sealOf.
func (r *request) seal(h vfs.Handle) wire.FileHandle3 { return r.sealOf(r.export, h) }

// sealOf is like seal, for a handle of export e.
func (r *request) sealOf(e *export.Export, h vfs.Handle) wire.FileHandle3 {
	return wire.FileHandle3{Data: r.program.exports.Seal(r.sealed[:0], e, h)}
}

// blocked reports whether err means that a call with Try would have had to wait.
func blocked(err error) bool { return err != nil && errors.Is(err, vfs.ErrWouldBlock) }
