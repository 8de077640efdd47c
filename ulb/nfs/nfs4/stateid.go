package nfs4

import (
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

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

// ref returns the reference for a stateid of the arguments. If the argument is the special
// current stateid, ref uses the compound's current stateid instead. It then sets the seqid
// to 0, which means the newest, except for CLOSE and OPEN_DOWNGRADE (RFC 8881 §8.2.3).
func (k *Compound) ref(id *wire.StateID4) (state.Ref, Status) {
	r := state.Ref{ID: state.StateID(*id), Client: k.Client}
	if k.Current.IsSet() {
		r.Key, r.Export = k.Current.key(), k.Current.Export.ID
	}
	if k.Minor == 0 || r.ID != state.CurrentID {
		return r, wire.NFS4OK
	}
	if state.IsSpecial(&k.StateID) {
		return r, wire.NFS4ErrBadStateID
	}
	r.ID = k.StateID
	if k.Number != wire.OpClose && k.Number != wire.OpOpenDowngrade {
		r.ID.Seqid = 0
	}
	return r, wire.NFS4OK
}

// openFor returns the open file through which an operation may read (want is AccessRead) or write
// (AccessWrite) o, the current or the saved object: the file of the stateid in the arguments, if the
// caller opened it for this access.
//
// The file is nil if another principal opened it, if the stateid is special, if an operation reads by a
// stateid that is open only for writing (RFC 7530 §9.1.6, RFC 8881 §9.1.2), or if the file system does not
// implement vfs.Opener. The operation then uses the file handle, and the file system checks the caller's
// permission (RFC 8881 §18.16.3, RFC 7530 §16.16.6). If an operation on the file fails with EBADF, the
// file was closed meanwhile: see closedOr.
//
// openFor returns NFS4ERR_LOCKED if another open has a deny mode against this access, NFS4ERR_OPENMODE if
// the stateid was not opened for it, NFS4ERR_GRACE, or an error about the stateid.
func (k *Compound) openFor(o *Object, id *wire.StateID4, want state.Access) (vfs.File, Status) {
	m := k.Program.state
	use := &k.uses[0]
	if o != &k.Current {
		use = &k.uses[1]
	}
	special, access := state.StateID(*id), state.UseRead
	switch {
	case want == state.AccessWrite:
		access = state.UseWrite
	case special == state.Bypass:
		access = state.UseReadAnyway
	}
	if special == state.Anonymous || special == state.Bypass {
		return nil, k.may(access, o, nil, nil)
	}
	r, s := k.ref(id)
	if s != wire.NFS4OK {
		return nil, s
	}
	if o != &k.Current {
		r.Key, r.Export = o.key(), o.Export.ID
	}
	st, v := m.Resolve(&r, 0)
	if v != state.Granted {
		return nil, k.Answer(v)
	}
	if k.Minor == 0 {
		m.Renew(st.Client)
	}
	*use = useOfState{st, want, k.principal(o)}
	f, v := st.For(want, use.by)
	if v != state.Granted && (v != state.NotOpenFor || want != state.AccessRead) {
		return nil, k.Answer(v)
	}
	return f, k.may(access, o, nil, st)
}

// A useOfState is a state (an open, for example) whose stateid an operation uses, the access that the
// operation makes with it, and who does. The zero value means that the operation uses no state.
type useOfState struct {
	state *state.State
	want  state.Access
	by    state.Principal
}

// OnState runs an operation on a stateid of the given kind. run returns the stateid that replaces the old
// one; OnState writes it as the result and makes it the current stateid.
func (k *Compound) OnState(id *wire.StateID4, kind state.Kind, seqid uint32, run func(r *state.Ref) (state.StateID, state.Verdict)) Status {
	r, s := k.ref(id)
	if s != wire.NFS4OK {
		return s
	}
	owner, s := k.ownerOf(&r.ID, kind)
	if s != wire.NFS4OK {
		return k.orOfType(s)
	}
	return k.numbered(owner, seqid, func() Status {
		next, v := run(&r)
		if v == state.Granted {
			id := wire.StateID4(next)
			id.Encode(k.W)
			k.StateID = next
		}
		return k.orOfType(k.Answer(v))
	})
}

// orOfType returns s, the status of an operation with a stateid. But if a LOCK or OPEN_CONFIRM of minor
// version 0 has a bad stateid and the object is no regular file, the status names the object's type (RFC
// 7530 §13.2).
func (k *Compound) orOfType(s Status) Status {
	if s != wire.NFS4ErrBadStateID || k.Minor != 0 || k.postponed != wire.NFS4OK || k.Number != wire.OpLock && k.Number != wire.OpOpenConfirm {
		return s
	}
	if t := k.regular(); t != wire.NFS4OK {
		return t
	}
	return s
}

// closeFile is CLOSE (RFC 8881 §18.2, RFC 7530 §16.2).
func closeFile(k *Compound, args *wire.Close4Args) Status {
	return k.OnState(&args.OpenStateid, state.KindOpen, args.Seqid, func(r *state.Ref) (state.StateID, state.Verdict) {
		id, v := k.Program.state.CloseOpen(r, k.Op.Try)
		if k.Minor > 0 {
			id = state.InvalidID // RFC 8881 §18.2.4
		}
		return id, v
	})
}

// openDowngrade is OPEN_DOWNGRADE (RFC 8881 §18.18, RFC 7530 §16.19).
func openDowngrade(k *Compound, args *wire.OpenDowngrade4Args) Status {
	return k.OnState(&args.OpenStateid, state.KindOpen, args.Seqid, func(r *state.Ref) (state.StateID, state.Verdict) {
		access, deny, s := shareOf(args.ShareAccess, args.ShareDeny, k.Minor)
		if s != wire.NFS4OK {
			return state.StateID{}, state.Invalid
		}
		return k.Program.state.Downgrade(r, access, deny)
	})
}

// freeStateID is FREE_STATEID (RFC 8881 §18.38).
func freeStateID(k *Compound, args *wire.FreeStateID4Args) Status {
	r, s := k.ref(&args.Stateid)
	if s != wire.NFS4OK {
		return s
	}
	return k.Answer(k.Program.state.FreeStateID(&r.ID, k.Client))
}

// testStateID is TEST_STATEID (RFC 8881 §18.48). The status of a special stateid is NFS4ERR_BAD_STATEID.
// The status is never NFS4ERR_STALE_STATEID, because a client would repeat the test for ever: see verdicts.
func testStateID(k *Compound, args *wire.TestStateID4Args) Status {
	ids := args.Stateids
	if 4+4*ids.Len() > k.Room() {
		return k.tooBig()
	}
	k.W.Uint32(uint32(ids.Len()))
	var id wire.StateID4
	for ids.Next(&id) {
		_, v := k.Program.state.Find((*state.StateID)(&id), k.Client)
		s := k.Answer(v)
		s.Encode(k.W)
	}
	return wire.NFS4OK
}

// delegReturn is DELEGRETURN (RFC 8881 §18.6). The server grants no delegations, so no
// stateid belongs to one.
func delegReturn(k *Compound, args *wire.DelegReturn4Args) Status {
	r, s := k.ref(&args.Stateid)
	if s != wire.NFS4OK {
		return s
	}
	_, v := k.Program.state.Find(&r.ID, k.Client)
	if v == state.Granted || v == state.OldID {
		v = state.UnknownID // the stateid belongs to an open or a lock
	}
	return k.Answer(v)
}

// delegPurge is DELEGPURGE (RFC 8881 §18.5). It is not supported, because the server keeps no
// delegations for a client that restarts.
func delegPurge(k *Compound, args *wire.DelegPurge4Args) Status {
	if _, s := k.ClientOf(args.Clientid); s != wire.NFS4OK && k.Minor == 0 {
		return s
	}
	return wire.NFS4ErrNotSupp
}
