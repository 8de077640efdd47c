package nfs4

import (
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A Gate says what an operation asks the state manager before it uses a file (docs/internals/gate.md). Each row of a
// table of operations has one.
type Gate uint8

// Gates. The function perform asks for the first ones, of the current object, before it runs the operation.
const (
	// GateStat is for an operation that reads attributes, or something else that only a change of attributes changes, such
	// as the target of a symbolic link.
	GateStat Gate = iota + 1
	// GateNames is for an operation that reads names in a directory.
	GateNames
	// GateCommit is for COMMIT.
	GateCommit
	// GateOwn is for an operation that asks itself, because it depends on its arguments what it is about to do.
	GateOwn
	// GateNone is for an operation that uses no content, attributes or names of a file.
	GateNone
)

// first holds the access for which perform asks.
var first = [...]struct {
	asks bool
	use  state.Use
}{GateStat: {true, state.UseStat}, GateNames: {true, state.UseNames}, GateCommit: {true, state.UseCommit}, GateNone: {}}

// may returns NFS4_OK if the caller may use the object o now. by is the open or lock of the
// stateid in the arguments, or nil. If name is not nil, o is a directory, and the file in
// question is the one of that name in o, if there is one. The access ends with the operation.
func (k *Compound) may(use state.Use, o *Object, name []byte, by *state.State) Status {
	if !use.Changes() && k.Program.state.Clear(use) {
		return wire.NFS4OK
	}
	return k.ask(use, o, name, by, nil)
}

// maySet is may for an access that sets attributes.
func (k *Compound) maySet(use state.Use, o *Object, name []byte, set *vfs.SetAttr) Status {
	return k.ask(use, o, name, nil, set)
}

// may returns NFS4_OK if the listing may show what it shows of o, which is not the current object. The listing does not
// wait.
func (l *lister) may(o Object) Status {
	if l.plus && l.k.may(state.UseStat, &o, nil, nil) != wire.NFS4OK {
		return wire.NFS4ErrDelay
	}
	return wire.NFS4OK
}

// ask asks the state manager about an access, and translates its answer.
//
// If another open has a deny mode that forbids the use, ask returns NFS4ERR_LOCKED or, for the
// removal of a name, NFS4ERR_FILE_OPEN (RFC 8881 §18.25.4, RFC 7530 §16.26.5). During the grace
// period after a restart of the server, no name may change: clients reclaim the state that they
// held before the restart, and may do so by name (RFC 8881 §8.4.2).
func (k *Compound) ask(use state.Use, o *Object, name []byte, by *state.State, set *vfs.SetAttr) Status {
	i := state.Intent{
		Use: use, FS: o.Export.FS, File: o.Handle, Name: name, Set: set, Op: k.opIn(o), By: by,
		Client: k.Client, From: k.Call.Conn.Peer.Addr(), Kind: state.Sessions, Later: &k.later,
	}
	if k.Minor == 0 {
		i.Kind = state.Minor0
	}
	pass, answer := k.Program.state.Ask(&i)
	switch answer {
	case state.Yes:
		k.passes.Add(pass)
		return wire.NFS4OK
	case state.AfterGrace:
		if k.Minor == 0 && use == state.UseLink {
			return wire.NFS4ErrDelay // minor version 0 has no NFS4ERR_GRACE for LINK
		}
		return wire.NFS4ErrGrace
	case state.AfterWait:
		return k.Block(k.FS().Lane())
	case state.Delayed:
		return k.afterDisk()
	case state.Repeat:
		return wire.NFS4ErrDelay
	case state.Failed:
		return k.Failed(i.Err)
	}
	switch use {
	case state.UseRemove, state.UseRename:
		return wire.NFS4ErrFileOpen
	case state.UseRead, state.UseReadAnyway, state.UseWrite, state.UseAttributes:
		return wire.NFS4ErrLocked
	}
	return wire.NFS4ErrDelay // the other operations have no status for it
}
