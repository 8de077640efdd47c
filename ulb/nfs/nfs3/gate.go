package nfs3

import (
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A gate says what a procedure asks the state manager before it uses a file (docs/internals/gate.md). Nearly every
// result has attributes of the call's object, so nearly every procedure reads some.
type gate uint8

// Gates. The server asks for the first ones, of the call's object, before it runs the procedure.
const (
	gateStat gate = iota + 1
	gateNames
	gateCommit
	// gateOwn is for a procedure that asks itself, because it depends on its arguments what it is about to do.
	gateOwn
	// gateNone is for NULL, which uses no file.
	gateNone
)

// first holds the access for which the server asks before it runs a procedure.
var first = [...]state.Use{gateStat: state.UseStat, gateNames: state.UseNames, gateCommit: state.UseCommit}

// A procedure is a row of the table of procedures.
type procedure struct {
	gate gate
	run  func(*request) rpc.Outcome
}

// begin asks for the access in first, if there is one, and runs the procedure.
func (p *procedure) begin(r *request) rpc.Outcome {
	if p.gate >= gateOwn {
		return p.run(r)
	}
	err := r.may(first[p.gate], r.handle, nil)
	if err == nil {
		return p.run(r)
	}
	out, send := r.outcome(err)
	if send {
		return refuse(r.call, r.w, err)
	}
	return out
}

// may returns nil if the caller may use the file h now. If name is not nil, h is a directory, and the file
// in question is the one of that name in h, if there is one. The access ends with the call.
func (r *request) may(use state.Use, h vfs.Handle, name []byte) error {
	if m := r.program.state; m == nil || !use.Changes() && m.Clear(use) {
		return nil
	}
	return r.ask(use, r.fs(), h, name, nil)
}

// maySet is may for an access that sets attributes.
func (r *request) maySet(use state.Use, h vfs.Handle, name []byte, set *vfs.SetAttr) error {
	if r.program.state == nil {
		return nil
	}
	return r.ask(use, r.fs(), h, name, set)
}

// shows reports whether the result may have attributes of h, which is not the call's object. The client can do without
// them, so the call does not wait.
func (r *request) shows(fs vfs.FileSystem, h vfs.Handle) bool {
	m := r.program.state
	return m == nil || m.Clear(state.UseStat) || r.ask(state.UseStat, fs, h, nil, nil) == nil
}

// ask asks the state manager about an access, and translates its answer.
//
// A denied call gets NFS3ERR_ACCES, as from Linux's server: after NFS3ERR_JUKEBOX the client's programs
// would hang as long as another client has the file open. During the grace period, which is short, a call
// gets NFS3ERR_JUKEBOX if an open that an NFSv4 client may still reclaim would deny it.
func (r *request) ask(use state.Use, fs vfs.FileSystem, h vfs.Handle, name []byte, set *vfs.SetAttr) error {
	i := state.Intent{
		Use: use, FS: fs, File: h, Name: name, Set: set, Op: &r.op, Later: &r.later, From: r.call.Conn.Peer.Addr(), Kind: state.Host,
	}
	pass, answer := r.program.state.Ask(&i)
	switch answer {
	case state.Yes:
		r.passes.Add(pass)
		return nil
	case state.AfterGrace:
		r.call.PutOff(rpc.WaitGrace, 0, r.export.ID, r.handle.Bytes())
		return vfs.ErrDelay
	case state.Repeat:
		return vfs.ErrDelay
	case state.AfterWait:
		return vfs.ErrWouldBlock
	case state.Delayed:
		return errLater
	case state.Failed:
		return i.Err
	}
	return syscall.EACCES
}
