package nfs4

import (
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// lock is LOCK (RFC 8881 §18.10, RFC 7530 §16.10). In minor versions 1 and 2, an object that is no regular
// file has precedence over a bad stateid (see mustBeRegular).
func lock(k *Compound, args *wire.Lock4Args) Status {
	s := lockFile(k, args)
	if s == wire.NFS4ErrBadStateID && k.Minor > 0 {
		if not := k.regular(); not != wire.NFS4OK {
			return not
		}
	}
	return s
}

func lockFile(k *Compound, args *wire.Lock4Args) Status {
	claimer, _ := vfs.As[vfs.Claimer](k.FS())
	a := state.LockArgs{
		Claimer: claimer, Try: k.Op.Try, Later: &k.later,
		New: args.Locker.NewLockOwner, Offset: args.Offset, Length: args.Length,
		Write: writes(args.Locktype), Wait: args.Locktype == wire.ReadwLt || args.Locktype == wire.WritewLt,
		Tag: k.Current, Claimed: args.Reclaim,
	}
	id, kind, seqid := &args.Locker.LockOwner.Stateid, state.KindLock, args.Locker.LockOwner.Seqid
	if a.New {
		first := &args.Locker.OpenOwner
		id, kind, seqid = &first.OpenStateid, state.KindOpen, first.OpenSeqid
		a.OwnerName = first.LockOwner.Owner
	}
	var s Status
	if a.Ref, s = k.ref(id); s != wire.NFS4OK {
		return s
	}
	owner, s := k.ownerOf(&a.Ref.ID, kind)
	if s != wire.NFS4OK {
		return k.orOfType(s)
	}
	return k.numbered(owner, seqid, func() Status {
		if s := k.mayLock(owner, args.Reclaim); s != wire.NFS4OK {
			return s
		}
		if s := k.mayLockAs(&a, kind); s != wire.NFS4OK {
			return s
		}
		if a.New && k.minor.sequencer != nil {
			first := &args.Locker.OpenOwner
			return k.orOfType(k.firstLock(&a, first.LockOwner.Clientid, first.LockSeqid))
		}
		return k.orOfType(k.lock(&a))
	})
}

func writes(t wire.NFSLockType4) bool { return t == wire.WriteLt || t == wire.WritewLt }

// mayLock checks that the client of owner or, if owner is nil, of the session may take locks now: during the grace period
// perhaps only those that it reclaims.
func (k *Compound) mayLock(owner *state.Owner, reclaim bool) Status {
	c := k.Client
	if owner != nil {
		c = owner.Client
	}
	if c == nil {
		return wire.NFS4ErrOpNotInSession
	}
	v, _ := k.Program.state.MayHold(c, state.KindLock, 0, reclaim) // Lock has the client recorded
	return k.Answer(v)
}

// mayLockAs checks that the caller may lock through the stateid: it must have opened the file for writing
// if the lock is a write lock, otherwise for reading, or have the permission for that. Lock reports a
// wrong stateid.
func (k *Compound) mayLockAs(a *state.LockArgs, kind state.Kind) Status {
	want := state.AccessRead
	if a.Write {
		want = state.AccessWrite
	}
	st, v := k.Program.state.Resolve(&a.Ref, kind)
	if v != state.Granted || st.OpenedBy(want, k.principal(&k.Current)) {
		return wire.NFS4OK
	}
	if err := k.granted(k.Current.Handle, opens(want)); err != nil {
		return k.Failed(err)
	}
	return wire.NFS4OK
}

// firstLock takes the first lock of a lock-owner whose requests are numbered. The request also carries a seqid of the
// lock-owner (RFC 7530 §9.1.7).
func (k *Compound) firstLock(a *state.LockArgs, clientID uint64, seqid uint32) Status {
	c, s := k.ClientOf(clientID)
	if s != wire.NFS4OK {
		return s
	}
	var v state.Verdict
	if a.LockOwner, v = k.Program.state.OwnerOf(c, a.OwnerName, true); v != state.Granted {
		return k.Answer(v)
	}
	return k.minor.sequencer.Introduce(a.LockOwner, seqid, func() Status { return k.lock(a) })
}

// lock takes the lock and writes the result.
func (k *Compound) lock(a *state.LockArgs) Status {
	id, d, v := k.Program.state.Lock(a)
	switch {
	case v == state.Granted:
		res := wire.Lock4ResOK{LockStateid: wire.StateID4(id)}
		res.Encode(k.W)
		k.StateID = id
	case v == state.LockConflict && a.Claimed:
		return wire.NFS4ErrReclaimConflict
	case v == state.LockConflict:
		return k.denied(d)
	}
	return k.Answer(v)
}

// denied writes a LOCK4denied result that describes the conflicting lock. It leaves out the name of a
// lock-owner that is longer than nfs.MaxDeniedOwner. A client could not receive the result otherwise, and no client
// needs the name to repeat the LOCK later.
func (k *Compound) denied(d *state.Denied) Status {
	res := wire.Lock4Denied{Offset: d.Offset, Length: d.Length, Locktype: wire.ReadLt, Owner: wire.StateOwner4{Clientid: d.ClientID}}
	if len(d.Owner) <= nfs.MaxDeniedOwner {
		res.Owner.Owner = []byte(d.Owner)
	}
	if d.Write {
		res.Locktype = wire.WriteLt
	}
	room, start := k.Room(), k.W.Len()
	res.Encode(k.W)
	if k.W.Overflow() || k.W.Len()-start > room {
		k.W.Truncate(start)
		return k.tooBig()
	}
	k.KeepBody()
	return wire.NFS4ErrDenied
}

// lockTest is LOCKT (RFC 8881 §18.11, RFC 7530 §16.11).
func lockTest(k *Compound, args *wire.Lockt4Args) Status {
	c, s := k.ClientOf(args.Owner.Clientid)
	if s != wire.NFS4OK {
		return s
	}
	if s := k.regular(); s != wire.NFS4OK {
		return s
	}
	claimer, claims := vfs.As[vfs.Claimer](k.FS())
	if claims && k.Op.Try {
		return k.Block(k.FS().Lane()) // TestLock waits for the Claimer
	}
	d, v := k.Program.state.TestLock(c, args.Owner.Owner, k.Current.key(), args.Offset, args.Length, writes(args.Locktype), claimer, &k.later)
	if v == state.LockConflict {
		return k.denied(d)
	}
	return k.Answer(v)
}

// unlock is LOCKU (RFC 8881 §18.12, RFC 7530 §16.12).
func unlock(k *Compound, args *wire.Locku4Args) Status {
	claimer, _ := vfs.As[vfs.Claimer](k.FS())
	return k.OnState(&args.LockStateid, state.KindLock, args.Seqid, func(r *state.Ref) (state.StateID, state.Verdict) {
		return k.Program.state.Unlock(r, args.Offset, args.Length, claimer, k.Op.Try)
	})
}
