package nfs4suite

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// Each operation returns the right error for callers without permission.
func TestPermissions(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		user := newSession(t, site, 1, "user")
		all := s.populate()
		s.must("a file in the directory", putRoot, lookup("file"), saveFH, putFH(all["dir"]), link("inner"))
		user.UID, user.GID = 1000, 1000
		const denied = wire.NFS4ErrAccess
		chmod := func(name string, mode uint32) {
			t.Helper()
			s.must("SETATTR", putFH(all[name]), setattr(anonymous, attrs().mode(mode)))
		}
		chmod("file", 0o600)
		user.refused("OPEN to read", denied, openArgs("file", "owner", read, 0))
		user.refused("OPEN to write", denied, openArgs("file", "owner", write, 0))
		user.refused("OPEN UNCHECKED4", denied, creating(openArgs("file", "owner", read, 0), wire.Unchecked4, attrs().f, 0))
		user.refused("OPEN to cut", denied, creating(openArgs("file", "owner", write, 0), wire.Unchecked4, attrs().size(0).f, 0))
		chmod("file", 0o644)
		user.refused("OPEN to cut what is only read", denied, creating(openArgs("file", "owner", read, 0), wire.Unchecked4, attrs().size(0).f, 0))
		user.want("READ", ok, putFH(all["file"]), readOp(anonymous, 0, 1))
		user.want("WRITE", denied, putFH(all["file"]), writeOp(anonymous, 0, "x"))
		user.want("a size", denied, putFH(all["file"]), setattr(anonymous, attrs().size(0)))
		user.want("a mode", wire.NFS4ErrPerm, putFH(all["file"]), setattr(anonymous, attrs().mode(0o777)))
		user.want("an owner", wire.NFS4ErrPerm, putFH(all["file"]), setattr(anonymous, attrs().put(wire.Fattr4Owner, append(words(4), "1000"...))))
		if got := s.bytesOf(all["file"]); got != content {
			t.Errorf("the file holds %q", got)
		}

		for mode, may := range map[uint32]map[string]bool{
			0o700: {}, 0o704: {"list": true}, 0o701: {"find": true}, 0o705: {"list": true, "find": true},
		} {
			chmod("dir", mode)
			for what, o := range map[string]nfs4test.Op{"list": readdir(0, 4096), "find": lookup("inner")} {
				want := denied
				if may[what] {
					want = ok
				}
				user.want("to "+what, want, putFH(all["dir"]), o)
			}
			user.want("CREATE", denied, putFH(all["dir"]), create(wire.NF4Dir, "x"))
			user.want("REMOVE", denied, putFH(all["dir"]), remove("inner"))
			user.want("RENAME from it", denied, putFH(all["dir"]), saveFH, putRoot, rename("inner", "x"))
			user.want("RENAME to it", denied, putRoot, saveFH, putFH(all["dir"]), rename("file", "x"))
			user.want("LINK", denied, putFH(all["file"]), saveFH, putFH(all["dir"]), link("x"))
			user.want("OPEN to create", denied, putFH(all["dir"]), open(creating(openArgs("x", "o", both, 0), wire.Unchecked4, attrs().f, 0)))
			user.want("LOOKUPP", or(may["find"]), putFH(all["dir"]), lookupp)
		}
		// A caller that may write to a sticky directory may not remove another user's file there.
		chmod("dir", 0o1777)
		user.want("REMOVE from a sticky directory", denied, putFH(all["dir"]), remove("inner"))
		user.want("RENAME from a sticky directory", denied, putFH(all["dir"]), saveFH, rename("inner", "x"))

		// A caller that creates a file may read and write it through this open, whatever the
		// file's mode.
		for _, mode := range []uint32{0, 0o400, 0o444} {
			args := creating(openArgs("own", "owner", both, 0), wire.Unchecked4, attrs().mode(mode).f, 0)
			o := user.open(args)
			user.want("WRITE and READ", ok, putFH(o.fh), writeOp(o.Stateid, 0, "x"), readOp(o.Stateid, 0, 1))
			user.close(&o)
			user.refused("OPEN again", denied, openArgs("own", "owner", write, 0))
			user.must("REMOVE", putRoot, remove("own"))
		}
	})
}

// or returns NFS4_OK if may is true, and otherwise NFS4ERR_ACCESS.
func or(may bool) wire.NFSStat4 {
	if may {
		return ok
	}
	return wire.NFS4ErrAccess
}

// On a read-only export, operations that change something fail, and all others succeed.
func TestReadOnlyExport(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		if site.Exports == nil {
			t.Skip("the server is elsewhere")
		}
		s := newSession(t, site, 2, "client")
		all := s.populate()
		o := s.open(openArgs("file", "owner", both, 0))
		site.Exports.Root().ReadOnly = true
		for _, ops := range [][]nfs4test.Op{
			{putRoot, create(wire.NF4Dir, "x")}, {putRoot, remove("file")}, {putRoot, saveFH, rename("file", "x")}, {putRoot, lookup("file"), saveFH, putRoot, link("x")},
			{putFH(o.fh), writeOp(o.Stateid, 0, "x")}, {putFH(o.fh), writeOp(anonymous, 0, "x")}, {putFH(o.fh), setattr(anonymous, attrs().mode(0o600))},
			{putFH(o.fh), setattr(o.Stateid, attrs().size(0))}, {putFH(o.fh), allocate(o.Stateid, 0, 1)}, {putFH(o.fh), deallocate(o.Stateid, 0, 1)},
			{putRoot, open(openArgs("file", "owner", write, 0))}, {putRoot, open(creating(openArgs("new", "owner", read, 0), wire.Unchecked4, attrs().f, 0))},
			{putRoot, open(creating(openArgs("file", "owner", read, 0), wire.Unchecked4, attrs().size(0).f, 0))},
			{putFH(all["file"]), saveFH, putFH(o.fh), copyOp(anonymous, anonymous, 0, 0, 0)},
		} {
			s.want(ops[len(ops)-1].Number.String(), wire.NFS4ErrROFS, ops...)
		}
		second := s.open(openArgs("file", "reader", read, 0))
		id := s.lock(&second, "locker", wire.ReadLt, 0, 1)
		s.want("reading", ok, putFH(o.fh), readOp(second.Stateid, 0, 1), readOp(id, 0, 1), unlock(id, 0, 1), commit(0, 0), access(0x3f), closeOp(second.Stateid))
		if got := s.bytesOf(o.fh); got != content {
			t.Errorf("the file holds %q", got)
		}
	})
}

// If the upgrade of a lock is denied, the lock does not change.
func TestLockUpgradeDenied(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s, other := newSession(t, site, 1, "client"), newSession(t, site, 1, "other")
		s.makeFile("file")
		o, p := s.open(openArgs("file", "owner", both, 0)), other.open(openArgs("file", "owner", both, 0))
		id, theirs := s.lock(&o, "locker", wire.ReadLt, 0, 10), other.lock(&p, "locker", wire.ReadLt, 5, 10)
		r := s.want("to write", wire.NFS4ErrDenied, putFH(o.fh), lockMore(id, wire.WriteLt, 0, 10))
		s.deniedBy(&r[1], other.client, "locker", 5, 10, false)
		s.want("the stateid is as it was", ok, op(wire.OpTestStateID, testArgs(id)), putFH(o.fh), readOp(id, 0, 1))
		other.want("the lock is there", wire.NFS4ErrDenied, putFH(o.fh), lockMore(theirs, wire.WriteLt, 5, 5))
		other.want("LOCKU", ok, putFH(o.fh), unlock(theirs, 5, 10))
		s.want("to write now", ok, putFH(o.fh), lockMore(id, wire.WriteLt, 0, 10))
	})
}

// The server grants no delegations, so DELEGRETURN and DELEGPURGE fail.
func TestDelegationsThatThereAreNot(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		s.makeFile("file")
		o := s.open(openArgs("file", "owner", both, 0))
		for _, id := range []wire.StateID4{o.Stateid, anonymous, bypass, invalid} {
			s.want("DELEGRETURN", wire.NFS4ErrBadStateID, putFH(o.fh), op(wire.OpDelegreturn, &wire.DelegReturn4Args{Stateid: id}))
		}
		s.want("DELEGPURGE", wire.NFS4ErrNotSupp, op(wire.OpDelegpurge, &wire.DelegPurge4Args{}))
		s.want("the open is there", ok, putFH(o.fh), readOp(o.Stateid, 0, 1))
	})
}

// Sessions whose reply cache is too small refuse sa_cachethis (RFC 8881 §2.10.6.4).
func TestSessionThatCachesNothing(t *testing.T) {
	site := newSite(t, nil, state.Config{})
	p := site.Peer(1)
	for i, cached := range []uint32{0, 10} {
		id := exchanged(p, "client "+string(rune('0'+i)), 1)
		args := createArgs(id.Clientid, 1)
		args.ForeChanAttrs.MaxresponsesizeCached = cached
		s := sessionOf(p, args)
		seq := s.next(0)
		seq.Cachethis = true
		if r := s.with(seq, putRoot); r.Status != wire.NFS4ErrRepTooBigToCache || len(r.Ops) != 1 {
			t.Errorf("to be kept: %v after %d operations", r.Status, len(r.Ops))
		}
		s.want("not to be kept", ok, putRoot, getFH)
	}
}

// A compound with fewer operations than its count fails after the last one.
func TestCompoundsThatAreCut(t *testing.T) {
	s := newSession(t, newSite(t, nil, state.Config{}), 1, "client")
	m := s.Message("", op(wire.OpSequence, s.next(0)), putRoot, getattr(wire.Fattr4Type))
	// The last word of the message is the bitmap. The bitmap's length and the operation number
	// precede it.
	for _, cut := range []int{4, 8, 12} {
		r := s.Parse(s.End(s.Begin(m[:len(m)-cut])))
		if r.Status != wire.NFS4ErrBadXDR || len(r.Ops) != 3 {
			t.Errorf("%d bytes less: %v after %d operations", cut, r.Status, len(r.Ops))
		}
		s.last[0]++
		m = s.Message("", op(wire.OpSequence, s.next(0)), putRoot, getattr(wire.Fattr4Type))
	}
	s.want("the session goes on", ok, putRoot)
}
