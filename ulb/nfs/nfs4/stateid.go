package nfs4

import (
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// An Identifier is a Minor whose compounds do not say who sends them (minor version 0):
// operations say it, by a client ID or by a stateid.
type Identifier interface {
	// Client finds the client that a client ID in the arguments names, and renews its
	// lease: NFS4ERR_STALE_CLIENTID or NFS4ERR_EXPIRED where there is none.
	Client(k *Compound, id uint64) (*state.Client, Status)
	// Opened notes that the caller has opened a file in the name of a client.
	Opened(k *Compound, c *state.Client)
}

// ClientOf is who sends the operation. id is what its arguments say of that, which
// counts in minor version 0 alone.
func (k *Compound) ClientOf(id uint64) (*state.Client, Status) {
	if i, ok := k.minor.Minor.(Identifier); ok && k.Minor == 0 {
		return i.Client(k, id)
	}
	if k.Client == nil {
		return nil, wire.NFS4ErrOpNotInSession
	}
	return k.Client, wire.NFS4OK
}

// key is the current file.
func (k *Compound) key() state.FileKey { return k.Current.key() }

func (o *Object) key() state.FileKey {
	return state.FileKey{Domain: state.DomainOf(o.Export.FS), Handle: o.Handle}
}

// ref is what a stateid of the arguments names: where it stands for the current stateid,
// that one, with the newest seqid but for CLOSE and OPEN_DOWNGRADE (RFC 8881 §8.2.3).
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

// OpenFor is the open file with which an operation may do want, AccessRead or
// AccessWrite, to the current file: the one that the stateid of its arguments stands for,
// if the caller opened it for that. It is nil where another principal did, where the
// stateid is special, or the file system has no open files: then the operation goes by the
// file's handle, and is judged as its caller (RFC 8881 §18.16.3, RFC 7530 §16.16.6). An
// open file that answers EBADF was closed meanwhile: see closedOr.
//
// A stateid that is open to write alone is good for reading as well, as far as the caller
// may read (RFC 7530 §9.1.6, RFC 8881 §9.1.2).
//
// NFS4ERR_LOCKED: an open with a deny mode refuses this to callers that have not
// opened the file for it.
// NFS4ERR_OPENMODE: it was not opened for this. NFS4ERR_GRACE, and those about stateids.
func (k *Compound) OpenFor(id *wire.StateID4, want state.Access) (vfs.File, Status) {
	return k.openFor(&k.Current, id, want)
}

// openFor is OpenFor for an object that need not be the current one.
func (k *Compound) openFor(o *Object, id *wire.StateID4, want state.Access) (vfs.File, Status) {
	m := k.Program.state
	use := &k.uses[0]
	if o != &k.Current {
		use = &k.uses[1]
	}
	if *id == state.Anonymous || *id == state.Bypass {
		return nil, k.anonymous(o, id, want)
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
	if s == wire.NFS4ErrOpenMode && want == state.AccessRead {
		return nil, k.guarded(m.GuardOpen(st, o.Export.FS, o.Handle, state.UseRead, k.Op.Try))
	}
	return f, s
}

// A useOfState is what an operation does to a file by a state, or nothing.
type useOfState struct {
	state *state.State
	want  state.Access
}

// closed is the status of an operation with an open file that was closed meanwhile. Where its
// stateids are good for it still, an OPEN_DOWNGRADE closed that file alone: the client is to
// come again.
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

// anonymous says whether a file may be used without a state.
func (k *Compound) anonymous(o *Object, id *wire.StateID4, want state.Access) Status {
	m := k.Program.state
	use := state.UseRead
	switch {
	case want == state.AccessRead && *id == state.Bypass:
		// No claim that is still to come could stand in its way.
		return wire.NFS4OK
	case m.InGrace():
		return wire.NFS4ErrGrace
	case want == state.AccessWrite:
		use = state.UseWrite
	}
	return k.guarded(m.Guard(o.Export.FS, o.Handle, use, k.Op.Try))
}

// guarded is what an operation is answered that deny modes of others stand against by err.
func (k *Compound) guarded(err error) Status {
	switch {
	case blocked(err):
		return k.Failed(err)
	case err != nil:
		return wire.NFS4ErrLocked
	}
	return wire.NFS4OK
}
