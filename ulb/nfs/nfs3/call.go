package nfs3

import (
	"errors"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/pseudo"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Judge checks the file handle with which every procedure except NULL begins: whether this server has
// issued it, and whether its export serves the caller's address and port, is writable if the procedure
// changes files, and accepts the caller's flavor and identity. If not, the call is answered at once,
// before the server reserves memory or fetches data for it.
func (p *Program) Judge(a *rpc.Arrived, j *rpc.Judgement) rpc.Outcome {
	proc := wire.Procedure(a.Header.Procedure)
	if proc == wire.ProcNull {
		return rpc.Done
	}
	o, err := p.find(j.Object)
	if err == nil {
		err = refusal(o.Export, a.Conn, &a.Cred, proc)
	}
	if err != nil {
		return early(j, err)
	}
	if !admits(o.Export, o.Handle, a.Conn, &a.Cred, proc) {
		p.exports.OnRefusedFlavor(a.Conn, o.Export, export.SecurityOf(&a.Cred))
		return rpc.Denied(rpc.AuthTooWeak)
	}
	if refuses(o.Export, o.Handle, &a.Cred, proc) {
		p.exports.OnRefusedPrincipal(a.Conn, o.Export, a.Cred.Principal)
		return early(j, syscall.EACCES)
	}
	j.Known = p.exports.Knows(o, a.Conn, &a.Cred)
	if p.exports.Delays(o.Export, &a.Cred) {
		return early(j, vfs.ErrDelay)
	}
	j.Subject = o
	j.Lane = o.Export.FS.Lane()
	return rpc.Done
}

// find returns the file that a handle names.
func (p *Program) find(handle []byte) (*export.Opened, error) {
	o, err := p.exports.Find(handle)
	switch {
	case errors.Is(err, export.ErrGone):
		return nil, syscall.ESTALE
	case err != nil:
		return nil, vfs.ErrBadHandle
	}
	return o, nil
}

// refusal returns the reason why an export does not serve a call on a connection, or nil.
func refusal(e *export.Export, c *rpc.Conn, cred *rpc.Cred, p wire.Procedure) error {
	switch {
	case !e.Serves(c, cred):
		return syscall.EACCES
	case e.ReadOnly && changes(p):
		return syscall.EROFS
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

// early makes Serve answer the call with the status of err.
func early(j *rpc.Judgement, err error) rpc.Outcome {
	j.Early, j.Subject = true, err
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

// turnAway refuses a call before its procedure runs.
func (p *Program) turnAway(c *rpc.Call, w *xdr.Writer, err error) rpc.Outcome {
	at := w.Len()
	out := refuse(c, w, err)
	p.counters.count(c, w.Bytes()[at:])
	return out
}

// refuse answers a call with the status of err and no attributes.
func refuse(c *rpc.Call, w *xdr.Writer, err error) rpc.Outcome {
	w.Uint32(uint32(export.StatusOf(err)))
	for range absent[c.Header.Procedure] {
		w.Bool(false)
	}
	return rpc.Done
}

// A request holds the state of one call. Requests are pooled. Everything that a procedure passes to a file
// system by pointer is a field of request, so that a call allocates nothing.
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
	// values holds, by procedure, the arguments and results of an earlier call: see answered.
	values [wire.ProcCommit + 1]any
	// later is what the call waits for, after errLater.
	later state.Later
	// passes are those of the changes that the procedure makes.
	passes state.Passes
}

// Serve runs one procedure.
func (p *Program) Serve(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
	if c.Early {
		return p.turnAway(c, w, c.Subject.(error))
	}
	var e *export.Export
	var who export.Looked
	o, named := c.Subject.(*export.Opened)
	if named {
		var err error
		switch e, err = p.enter(c, o); {
		case blocked(err):
			return rpc.WouldBlock(e.FS.Lane())
		case err != nil:
			return p.turnAway(c, w, err)
		}
		if err := p.exports.Look(e, c.Conn, &c.Cred, &who); err != nil {
			lane := e.FS.Lane()
			e.Leave(c.Conn)
			return p.wait(c, w, lane, err)
		}
	}
	at := w.Len()
	out, later := p.execute(c, w, e, o, &who)
	switch {
	case out.Block:
	case out.Pending:
		// From Await on, the call may belong to another goroutine.
		c.WaitsFor(rpc.WaitState)
		c.Detach()
		lane := e.FS.Lane()
		later.Await(func() { c.Resume(lane) })
	case out.Stat == rpc.Success:
		p.counters.count(c, w.Bytes()[at:])
	}
	return out
}

// execute runs the procedure of a call. e is the export of the call, and o the object, or both are nil. If
// the outcome is Pending, the call has to run again after later.
func (p *Program) execute(c *rpc.Call, w *xdr.Writer, e *export.Export, o *export.Opened, who *export.Looked) (out rpc.Outcome, later state.Later) {
	r := p.requests.Get().(*request)
	r.program, r.call, r.args, r.w = p, c, &c.Args, w
	r.op, r.cred = vfs.Op{Cred: &r.cred, Try: c.Try}, vfs.Cred{UID: rpc.NobodyID, GID: rpc.NobodyID}
	defer p.recycle(r)
	if e != nil {
		r.export, r.handle = e, o.Handle
		r.op.Async = e.Async
		r.looked = *who
		e.Identify(&c.Cred, &r.looked, &r.cred)
	}
	out = procedures[c.Header.Procedure].begin(r)
	if out.Pending {
		later = r.later
	}
	return out, later
}

// enter marks the export of the call as in use (export.Export.Enter). If the export has been replaced or
// removed since Judge, or the file system of an idle mount was closed, enter repeats the checks of Judge
// with the present export. The error is vfs.ErrWouldBlock if a file system must be opened and the call may
// not wait.
func (p *Program) enter(c *rpc.Call, o *export.Opened) (e *export.Export, err error) {
	for e = o.Export; !e.Enter(c.Conn); {
		now, err := p.exports.AwakeFor(e, c.Try)
		switch {
		case blocked(err), errors.Is(err, syscall.ESTALE):
			return e, err
		case err != nil:
			return e, vfs.ErrDelay
		}
		e = now
		proc := wire.Procedure(c.Header.Procedure)
		if err := refusal(e, c.Conn, &c.Cred, proc); err != nil {
			return e, err
		}
		if !admits(e, o.Handle, c.Conn, &c.Cred, proc) || refuses(e, o.Handle, &c.Cred, proc) {
			return e, syscall.EACCES
		}
	}
	return e, nil
}

// wait handles a call whose caller could not be identified because of err. If err is an export.Pending,
// the executor runs the call again when the look-up has ended; lane is the resource that the call may then
// wait for (rpc.Call.Resume). Otherwise the client gets NFS3ERR_JUKEBOX.
func (p *Program) wait(c *rpc.Call, w *xdr.Writer, lane any, err error) rpc.Outcome {
	pending, ok := errors.AsType[export.Pending](err)
	if !ok {
		return p.turnAway(c, w, vfs.ErrDelay)
	}
	c.WaitsFor(rpc.WaitUser)
	c.Detach()
	pending.Await(func() { c.Resume(lane) })
	return rpc.Outcome{Pending: true}
}

// recycle ends the accesses of the call, calls Leave of the export, because the call no longer uses it, and returns r
// to the pool. It is deferred, so that it runs even if the procedure panics.
func (p *Program) recycle(r *request) {
	r.passes.Done()
	if r.export != nil {
		r.export.Leave(r.call.Conn)
	}
	r.program, r.call, r.args, r.w = nil, nil, nil, nil
	r.looked, r.later = export.Looked{}, state.Later{}
	r.export, r.cred.Groups, r.data[0], r.list, r.view = nil, nil, nil, lister{}, pseudo.View{}
	p.requests.Put(r)
}

// answered returns a procedure: it decodes the arguments, calls run, and encodes the results. run does the
// work, and fills in the results with their status. The error that it returns decides only whether the
// results are sent: see outcome.
func answered[A, R any, PA decoder[A], PR encoder[R]](run func(r *request, args PA, res PR) error) func(*request) rpc.Outcome {
	type values struct {
		args A
		res  R
	}
	return func(r *request) rpc.Outcome {
		kept := &r.values[r.call.Header.Procedure]
		v, _ := (*kept).(*values)
		if v == nil {
			v = new(values)
		}
		*kept = nil // if the procedure panics, its values are not used again
		out, send := rpc.GarbageArgs, false
		if PA(&v.args).Decode(r.args); r.args.Finish() == nil {
			r.attr = vfs.Attr{}
			out, send = r.outcome(run(r, &v.args, &v.res))
		}
		if send {
			PR(&v.res).Encode(r.w)
		}
		*v = values{}
		*kept = v
		return out
	}
}

// Errors of procedures that end a call with an error of RPC.
var (
	errGarbage  = errors.New("nfs3: the arguments contradict each other")
	errNoMemory = errors.New("nfs3: the call has no memory for its results")
	// errLater means that the call waits for what request.later says, and then runs again.
	errLater = errors.New("nfs3: the call waits for the records of clients, or for the end of a hold")
)

// outcome returns the outcome of a call whose procedure returned err. send is false if the results are
// not sent.
func (r *request) outcome(err error) (out rpc.Outcome, send bool) {
	switch {
	case err == nil:
	case blocked(err):
		return rpc.WouldBlock(r.fs().Lane()), false
	case errors.Is(err, errLater):
		return rpc.Outcome{Pending: true}, false
	case errors.Is(err, errGarbage):
		return rpc.GarbageArgs, false
	case errors.Is(err, errNoMemory):
		return rpc.SystemErr, false
	}
	return rpc.Done, true
}

type decoder[A any] interface {
	*A
	Decode(d *xdr.Decoder)
}

type encoder[R any] interface {
	*R
	Encode(w *xdr.Writer)
}

func (r *request) fs() vfs.FileSystem { return r.export.FS }

// seal returns the client's handle for a file system's handle. It is valid until the next call of
// seal or sealOf.
func (r *request) seal(h vfs.Handle) wire.FileHandle3 { return r.sealOf(r.export, h) }

// sealOf is like seal, for a handle of export e.
func (r *request) sealOf(e *export.Export, h vfs.Handle) wire.FileHandle3 {
	return wire.FileHandle3{Data: r.program.exports.Seal(r.sealed[:0], e, h)}
}

// blocked reports whether err means that a call with Try would have had to wait.
func blocked(err error) bool { return err != nil && errors.Is(err, vfs.ErrWouldBlock) }
