package nfs4_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/groups"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// managedSite returns a site whose exports manage groups or not, some of them nested. Each
// export has a file "guarded" that group 4000 may read.
func managedSite(t *testing.T) (*nfs4test.Site, *groups.Fake) {
	s := treeSiteWith(t, func(c *nfs4test.Config) {
		c.Minors = func(m *state.Manager) [3]nfs4.Minor {
			return [3]nfs4.Minor{newNumbered(m), newKnown(m, 1), newKnown(m, 2)}
		}
	}, "/data", "/data/dir/below", "/open", "/open/dir/below")
	known := new(groups.Fake)
	s.Exports.Groups = known
	secure(t, s, func(e *export.Export) {
		e.ManageGIDs = e.Name != "/open" && e.Name != "/data/dir/below"
		_, _, err := e.FS.Create(&vfs.Op{Cred: &vfs.Cred{}}, e.FS.Root(), []byte("guarded"),
			&vfs.CreateHow{Attr: vfs.SetAttr{SetMode: true, Mode: 0o060, SetGID: true, GID: 4000}})
		if err != nil {
			t.Fatal(err)
		}
	})
	return s, known
}

// as returns a peer that calls as user uid.
func as(s *nfs4test.Site, minor, uid uint32) *nfs4test.Peer {
	p := s.Peer(minor)
	p.UID, p.GID = uid, uid
	return p
}

func accessOp() nfs4test.Op {
	return nfs4test.Op{Number: wire.OpAccess, Args: &wire.Access4Args{Access: wire.Access4Read}}
}

// If the groups of a user are not known yet, the operation waits for them, and the compound
// then continues with it. If the groups cannot be looked up, the operation fails with
// NFS4ERR_DELAY.
func TestManagedGroups(t *testing.T) {
	s, known := managedSite(t)
	for minor := range uint32(3) {
		uid := 1000 + 10*minor
		access := func(uid uint32) (*nfs4test.Result, bool) {
			p := as(s, minor, uid)
			before := known.Waiting()
			c := p.Begin(p.Message("", append(walk("data", "guarded"), accessOp())...))
			await.Until(t, "it waits", func() bool { return known.Waiting() > before })
			if uid%10 == 2 {
				known.Delay(uid)
			} else {
				known.Know(uid, uid+1, 4000-uid%10)
			}
			r := p.Parse(p.End(c))
			if r.Status != wire.NFS4OK {
				return r, false
			}
			var res wire.Access4Res
			r.Ops[len(r.Ops)-1].Into(t, &res)
			return r, res.ResOK.Access&wire.Access4Read != 0
		}
		if r, may := access(uid); !may || len(r.Ops) != 4 {
			t.Errorf("minor version %d: a member may not read: %v", minor, statuses(r))
		}
		if r, may := access(uid + 1); may || r.Status != wire.NFS4OK {
			t.Errorf("minor version %d: one who is no member may read: %v", minor, statuses(r))
		}
		if r, _ := access(uid + 2); r.Status != wire.NFS4ErrDelay {
			t.Errorf("minor version %d: whose groups cannot be had: %v", minor, statuses(r))
		}
		p := as(s, minor, uid+2)
		if r := p.Compound(handleIn(t, s, "/data"), getattr(1)); r.Status != wire.NFS4ErrDelay || len(r.Ops) != 1 {
			t.Errorf("minor version %d: by handle: %v", minor, statuses(r))
		}
		// A compound does not wait if it does not enter an export that manages groups: at the
		// root, in another export, in a listing.
		for _, ops := range [][]nfs4test.Op{
			append(walk(), getattr(1), readdir(0, 4096)), append(walk("open", "file"), getattr(1)),
			append(walk("open"), op(wire.OpGetFH)), append(walk("open", "dir"), readdir(0, 4096, wire.Fattr4FileID, wire.Fattr4Mode)),
		} {
			if r := p.Compound(ops...); r.Status != wire.NFS4OK {
				t.Errorf("minor version %d: %v", minor, statuses(r))
			}
		}
	}
}

// A caller's groups apply in every export that a compound enters: in a nested export, on the
// way up, and for the saved object.
func TestManagedGroupsOnTheWay(t *testing.T) {
	s, known := managedSite(t)
	uid := uint32(1000)
	for _, ops := range [][]nfs4test.Op{
		append(walk("open", "dir", "below", "guarded"), accessOp()),
		append(walk("open", "dir", "below", ".."), accessOp()),
		append(walk("data", "dir", "below", ".."), accessOp()),
		append(walk("data", "dir"), secinfo("below")),
		append(append(walk("data", "guarded"), op(wire.OpSaveFH)), append(walk("open"), link("other"))...),
	} {
		uid++ // a user whose groups are not known yet
		before := known.Asked()
		p := as(s, 1, uid)
		c := p.Begin(p.Message("", ops...))
		await.Until(t, "it waits", func() bool { return known.Waiting() == 1 })
		known.Know(uid, 4000)
		r := p.Parse(p.End(c))
		if want := len(ops); len(r.Ops) != want || r.Status != wire.NFS4OK && r.Status != wire.NFS4ErrXDev {
			t.Errorf("%v", statuses(r))
		}
		if n := known.Asked() - before; n != 2 {
			t.Errorf("groups were asked for %d times in one compound", n)
		}
	}
}

// If an operation of minor version 0 fails with NFS4ERR_DELAY, the owner's sequence number
// advances, as the client expects (RFC 7530 §9.1.7).
func TestOwnersNumberWhileGroupsAreUnknown(t *testing.T) {
	s, known := managedSite(t)
	const uid = 1000
	p := &filer{Peer: as(s, 0, uid), t: t}
	known.Know(uid)
	open := p.confirmed(handleIn(t, s, "/data"))
	known.Delay(uid)
	p.want(wire.NFS4ErrDelay, append(walk("data"), open(9))...)
	known.Know(uid)
	p.want(wire.NFS4OK, append(walk("data"), open(10))...)
}

// If groups cannot be looked up, the operation that needs them fails, not a later operation.
func TestOperationThatIsDelayed(t *testing.T) {
	s, known := managedSite(t)
	const uid = 1000
	known.Delay(uid)
	p := as(s, 1, uid)
	for _, c := range []struct {
		name string
		ops  []nfs4test.Op
		ran  int
	}{
		{"LOOKUP in such an export", append(walk("data", "file"), getattr(1)), 3},
		{"LOOKUPP into it", []nfs4test.Op{handleIn(t, s, "/data/dir/below"), op(wire.OpLookupp), getattr(1)}, 2},
		{"LINK from it", append(append(walk("data"), op(wire.OpSaveFH)), append(walk("open"), link("other"))...), 6},
		{"GETFH in it", append(walk("data"), op(wire.OpGetFH), getattr(1)), 4},
	} {
		if r := p.Compound(c.ops...); r.Status != wire.NFS4ErrDelay || len(r.Ops) != c.ran {
			t.Errorf("%s: %v, want NFS4ERR_DELAY from operation %d", c.name, statuses(r), c.ran)
		}
	}
}
