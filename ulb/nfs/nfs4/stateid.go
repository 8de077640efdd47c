package nfs4

import (
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// An Identifier is the Minor of minor version 0. In this version a compound does not name its
// client, but some of its operations do, by a client ID or a stateid.
type Identifier interface {
	// Client finds the client by a client ID from the arguments and renews its lease. It
	// returns NFS4ERR_STALE_CLIENTID or NFS4ERR_EXPIRED if there is no such client.
	Client(k *Compound, id uint64) (*state.Client, Status)
	// Opened records that the caller has opened a file for client c. From then on, this caller may
	// renew c's lease (RENEW).
	Opened(k *Compound, c *state.Client)
}

// ClientOf returns the client that sent the operation. id is the client ID in the arguments;
// only minor version 0 uses it.
func (k *Compound) ClientOf(id uint64) (*state.Client, Status) {
	if i, ok := k.minor.Minor.(Identifier); ok && k.Minor == 0 {
		return i.Client(k, id)
	}
	if k.Client == nil {
		return nil, wire.NFS4ErrOpNotInSession
	}
	return k.Client, wire.NFS4OK
}

// key returns the key under which the state manager keeps the current file.
func (k *Compound) key() state.FileKey { return k.Current.key() }

func (o *Object) key() state.FileKey {
	return state.FileKey{Domain: state.DomainOf(o.Export.FS), Handle: o.Handle}
}

// ref returns the reference for a stateid of the arguments. If the argument is the special
// current stateid, ref uses the compound's current stateid instead. It then sets the seqid
// to 0, which means the newest, except for CLOSE and OPEN_DOWNGRADE (RFC 8881 §8.2.3).
func (k *Compound) ref(id *wire.StateID4) (state.Ref, Status) {
	r := state.Ref{ID: *id, Client: k.Client}
	if k.Current.IsSet() {
		r.Key = k.key()
	}
	if k.Minor == 0 || *id != state.CurrentID {
		return r, wire.NFS4OK
	}
	if !k.HasStateID || state.IsSpecial(&k.StateID) {
		return r, wire.NFS4ErrBadStateID
	}
	r.ID = k.StateID
	if k.Number != wire.OpClose && k.Number != wire.OpOpenDowngrade {
		r.ID.Seqid = 0
	}
	return r, wire.NFS4OK
}

// OpenFor returns the open file through which an operation may read (want is AccessRead) or
// write (AccessWrite) the current file. It is the file of the stateid in the arguments, if
// the caller opened it for this access.
//
// The file is nil if another principal opened it, if the stateid is special, or if the file system
// does not implement vfs.Opener. The operation then uses the file handle, and the file system
// checks the caller's permission (RFC 8881 §18.16.3, RFC 7530 §16.16.6). If an operation on the
// open file fails with EBADF, the file was closed meanwhile: see closedOr.
//
// A stateid that is open only for writing may also read, if the caller has read permission
// (RFC 7530 §9.1.6, RFC 8881 §9.1.2).
//
// OpenFor returns NFS4ERR_LOCKED if another open has a deny mode against this access, and
// NFS4ERR_OPENMODE if the stateid was not opened for this access. It may also return
// NFS4ERR_GRACE, and errors about the stateid.
func (k *Compound) OpenFor(id *wire.StateID4, want state.Access) (vfs.File, Status) {
	return k.openFor(&k.Current, id, want)
}

// openFor is like OpenFor, for object o, which may be another object than the current one.
func (k *Compound) openFor(o *Object, id *wire.StateID4, want state.Access) (vfs.File, Status) {
	m := k.Program.state
	use := &k.uses[0]
	if o != &k.Current {
		use = &k.uses[1]
	}
	access := state.UseRead
	switch {
	case want == state.AccessWrite:
		access = state.UseWrite
	case *id == state.Bypass:
		access = state.UseReadAnyway
	}
	if *id == state.Anonymous || *id == state.Bypass {
		return nil, k.may(access, o, nil, nil)
	}
	r, s := k.ref(id)
	if s != wire.NFS4OK {
		return nil, s
	}
	if o != &k.Current {
		r.Key = o.key()
	}
	st, s := m.Resolve(&r, 0)
	if s != wire.NFS4OK {
		return nil, s
	}
	if k.Minor == 0 {
		m.Renew(st.Client)
	}
	*use = useOfState{st, want}
	f, s := st.For(want, k.principal())
	if s != wire.NFS4OK && (s != wire.NFS4ErrOpenMode || want != state.AccessRead) {
		return nil, s
	}
	return f, k.may(access, o, nil, st)
}

// A useOfState is a state (an open, for example) whose stateid an operation uses, and the access
// that the operation makes with it. The zero value means that the operation uses no state.
type useOfState struct {
	state *state.State
	want  state.Access
}

// closed returns the status of an operation whose open file was closed meanwhile. If the
// stateids are still valid for the operation, an OPEN_DOWNGRADE replaced the open file.
// closed then returns NFS4ERR_DELAY, so that the client repeats the operation.
func (k *Compound) closed() Status {
	for _, u := range k.uses {
		if u.state == nil {
			continue
		}
		if _, s := u.state.For(u.want, k.principal()); s != wire.NFS4OK {
			return s
		}
	}
	return wire.NFS4ErrDelay
}
