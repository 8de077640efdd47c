package nfs4

import (
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// may returns NFS4_OK if the caller may use the object o now. by is the open or lock of the
// stateid in the arguments, or nil. If name is not nil, o is a directory, and the file in
// question is the one of that name in o, if there is one.
//
// If another open has a deny mode that forbids the use, may returns NFS4ERR_LOCKED or, for the
// removal of a name, NFS4ERR_FILE_OPEN (RFC 8881 §18.25.4, RFC 7530 §16.26.5). During the grace
// period after a restart of the server, no name may change: clients reclaim the state that they
// held before the restart, and may do so by name (RFC 8881 §8.4.2).
func (k *Compound) may(use state.Use, o *Object, name []byte, by *state.State) Status {
	i := state.Intent{
		Use: use, FS: o.Export.FS, File: o.Handle, Name: name, Op: k.opIn(o), By: by,
		Client: k.Client, From: k.Call.Conn.Peer.Addr(),
	}
	switch k.Program.state.Ask(&i) {
	case state.Yes:
		return wire.NFS4OK
	case state.AfterGrace:
		if k.Minor == 0 && use == state.UseLink {
			return wire.NFS4ErrDelay // minor version 0 has no NFS4ERR_GRACE for LINK
		}
		return wire.NFS4ErrGrace
	case state.AfterWait:
		return k.Block(k.FS().Lane())
	case state.Failed:
		return k.Failed(i.Err)
	}
	if use == state.UseRemove {
		return wire.NFS4ErrFileOpen
	}
	return wire.NFS4ErrLocked
}
