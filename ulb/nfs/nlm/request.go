package nlm

import (
	"encoding/binary"
	"errors"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// maxCaller is the length of the longest name of a host, in bytes. The protocol allows 1,024, and a host's name has
// at most 255 (RFC 1035 §2.3.4).
const maxCaller = 255

// A request is the state of one call.
type request struct {
	program *Program
	call    *rpc.Call
	// lock and cookie are from the arguments.
	lock   *wire.Lock4
	cookie wire.Object
	// message names a call with _MSG of a client.
	message digest

	export  *export.Export
	file    vfs.Handle
	claimer vfs.Claimer // nil if the file system makes no claims
	cred    vfs.Cred
	op      vfs.Op
	// later is what the call waits for, after errLater.
	later state.Later
	// holder is the result of TEST.
	holder wire.Holder4
}

// errLater means that the call waits for what request.later says, and then runs again.
var errLater = errors.New("nlm: the call waits for the records of clients")

// answered runs one procedure: it decodes the arguments, calls run, and has put write the result into the reply.
func answered[A any](p *Program, c *rpc.Call, w *xdr.Writer, decode func(d *xdr.Decoder, args *A),
	run func(r *request, args *A) (wire.Stat4, error), put func(r *request, w *xdr.Writer, stat wire.Stat4)) rpc.Outcome {
	if isMessage(wire.Procedure(c.Header.Procedure)) {
		return answeredByCall(p, c, decode, run, put)
	}
	r, args := p.request(c), new(A)
	if decode(&c.Args, args); c.Args.Finish() != nil {
		return rpc.GarbageArgs
	}
	stat, err := runs(r, args, run)
	if err != nil {
		return r.wait(err)
	}
	at := w.Len()
	if put(r, w, stat); c.Conn.Transport == "udp" && w.Len() > c.MessageLen {
		w.Truncate(at)
		r.unnamed()
		put(r, w, stat)
	}
	return outcome(stat)
}

func (p *Program) request(c *rpc.Call) *request {
	r := &request{program: p, call: c, op: vfs.Op{Try: c.Try}}
	r.op.Cred = &r.cred
	return r
}

func runs[A any](r *request, args *A, run func(r *request, args *A) (wire.Stat4, error)) (wire.Stat4, error) {
	defer r.leave() // also if the procedure panics
	return run(r, args)
}

func outcome(stat wire.Stat4) rpc.Outcome {
	if stat == wire.Granted {
		return rpc.Done
	}
	return rpc.Failed
}

// leave ends the use of the export.
func (r *request) leave() {
	if r.export != nil {
		r.export.Leave(r.call.Conn)
	}
}

// wait makes the call run again when what err says has happened.
func (r *request) wait(err error) rpc.Outcome {
	var lane any // the resource that the call may then wait for
	if r.export != nil {
		lane = r.export.FS.Lane()
	}
	if errors.Is(err, vfs.ErrWouldBlock) {
		return rpc.WouldBlock(lane)
	}
	// From Await on, the call may belong to another goroutine.
	c := r.call
	reason, await := rpc.WaitState, r.later.Await
	if pending, ok := errors.AsType[export.Pending](err); ok {
		reason, await = rpc.WaitUser, pending.Await
	}
	c.WaitsFor(reason)
	c.Detach()
	await(func() { c.Resume(lane) })
	return rpc.Outcome{Pending: true}
}

// begin finds the file of a call's lock, and enters its export. If the status is not Granted, the call gets that
// status. The call still has to wait if the error is not nil.
func (r *request) begin(cookie wire.Object, lock *wire.Lock4) (wire.Stat4, error) {
	r.cookie, r.lock = cookie, lock
	if len(lock.CallerName) > maxCaller {
		return wire.Failed, nil
	}
	if l := lock.Length; l != 0 && l-1 > 1<<64-1-lock.Offset {
		return wire.FBig, nil
	}
	c := r.call
	e, file, err := r.program.enter(c.Conn, lock.FileHandle, c.Try)
	switch {
	case errors.Is(err, vfs.ErrWouldBlock):
		return wire.Failed, err
	case err != nil:
		return statusOf(err), nil
	}
	r.export, r.file = e, file
	// AUTH_SYS suffices, whatever the export's flavors are: clients' lock managers have no other one (RFC 2623 §2.3.2
	// lets MOUNT pass for such a reason).
	if !e.Serves(c.Conn, &c.Cred) || e.Refuses(&c.Cred) {
		return wire.Failed, nil
	}
	r.claimer, _ = vfs.As[vfs.Claimer](e.FS)
	return wire.Granted, nil
}

// beginOnWorker is begin for a call that waits for the Claimer of its file system, if it has one.
func (r *request) beginOnWorker(cookie wire.Object, lock *wire.Lock4) (wire.Stat4, error) {
	s, err := r.begin(cookie, lock)
	if s == wire.Granted && err == nil && r.claimer != nil && r.op.Try {
		return wire.Failed, vfs.ErrWouldBlock
	}
	return s, err
}

// enter finds the file that a handle names, and enters its export, which the caller leaves. If try is true, and the
// export's file system has to be opened first, the error is vfs.ErrWouldBlock.
func (p *Program) enter(c *rpc.Conn, handle wire.Object, try bool) (*export.Export, vfs.Handle, error) {
	o, err := p.exports.Find(handle)
	if err != nil {
		return nil, vfs.Handle{}, vfs.ErrBadHandle
	}
	e := o.Export
	for !e.Enter(c) {
		if e, err = p.exports.AwakeFor(e, try); err != nil {
			return nil, vfs.Handle{}, err
		}
	}
	return e, o.Handle, nil
}

// mayLock checks that the caller may lock the file: it owns the file, or may read it or, for an exclusive lock, write
// it. Linux's server asks for the same. Only regular files have locks. An export may have none; UNLOCK and CANCEL do not
// come here, so that a lock ends that is older than the option.
func (r *request) mayLock(exclusive bool) (wire.Stat4, error) {
	e, c := r.export, r.call
	if e.NoLocks {
		return wire.DeniedNoLocks, nil
	}
	if exclusive && e.ReadOnly {
		return wire.ROFS, nil
	}
	var who export.Looked
	if err := r.program.exports.Look(e, c.Conn, &c.Cred, &who); err != nil {
		if _, ok := errors.AsType[export.Pending](err); ok {
			return wire.Failed, err
		}
		return wire.DeniedNoLocks, nil
	}
	e.Identify(&c.Cred, &who, &r.cred)
	want := vfs.AccessRead
	if exclusive {
		want |= vfs.AccessModify
	}
	var attr vfs.Attr
	has, err := e.FS.Access(&r.op, r.file, want, &attr)
	switch {
	case errors.Is(err, vfs.ErrWouldBlock):
		return wire.Failed, err
	case err != nil:
		return statusOf(err), nil
	case attr.Type != vfs.Regular, has == 0 && attr.UID != r.cred.UID:
		return wire.Failed, nil
	}
	return wire.Granted, nil
}

// owner returns the name by which the state knows the owner of the lock: its process number, and its opaque name.
func (r *request) owner() []byte { return ownerName(r.lock.SVID, r.lock.OH) }

func ownerName(svid int32, oh wire.Object) []byte {
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(oh)), uint32(svid)), oh...)
}

// length returns the length of the lock as the state knows it: all ones reach to the end of the file.
func (r *request) length() uint64 {
	if r.lock.Length == 0 {
		return vfs.ToEnd
	}
	return r.lock.Length
}

// ref returns the file of the lock for the state.
func (r *request) ref(host *state.Client) state.Ref {
	return state.Ref{Client: host, Key: state.FileKey{Domain: state.DomainOf(r.export.FS), Handle: r.file}, Export: r.export.ID}
}

// what returns the range of the lock for the state.
func (r *request) what(host *state.Client) state.HostRange {
	return state.HostRange{Ref: r.ref(host), Owner: r.owner(), Offset: r.lock.Offset, Length: r.length(), Claimer: r.claimer, Try: r.op.Try}
}

// host returns the host that calls, or nil if it holds nothing.
func (r *request) host() *state.Client {
	return r.program.state.FindHost(r.lock.CallerName, r.call.Conn.Peer.Addr())
}

// statusOf returns the status for an error of a file system.
func statusOf(err error) wire.Stat4 {
	switch {
	case errors.Is(err, syscall.ESTALE), errors.Is(err, vfs.ErrBadHandle):
		return wire.StaleFH
	case errors.Is(err, syscall.EROFS):
		return wire.ROFS
	case errors.Is(err, vfs.ErrDelay):
		return wire.DeniedNoLocks
	}
	return wire.Failed
}
