package export

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

func table(t *testing.T, names ...string) *Table {
	t.Helper()
	tab := NewTable([KeySize]byte{1, 2, 3})
	var all []*Export
	for _, n := range names {
		all = append(all, &Export{Name: n})
	}
	if err := tab.Replace(all); err != nil {
		t.Fatal(err)
	}
	return tab
}

func handle(t *testing.T, n int) vfs.Handle {
	t.Helper()
	h, ok := vfs.MakeHandle(bytes.Repeat([]byte{0x5a}, n))
	if !ok {
		t.Fatalf("no handle of %d bytes", n)
	}
	return h
}

func TestSealedHandleComesBackWhole(t *testing.T) {
	tab := table(t, "/a", "/b")
	for _, n := range []int{1, 8, vfs.MaxHandle} {
		for _, e := range tab.All() {
			h := handle(t, n)
			sealed := tab.Seal(nil, e, h)
			if len(sealed) > 64 {
				t.Fatalf("%d bytes do not fit NFSv3's 64", len(sealed))
			}
			for range 2 { // Find checks the seal the first time, and uses the cache the second time
				got, err := tab.Find(sealed)
				if err != nil || got.Export != e || got.Handle != h {
					t.Fatalf("Find = %+v, %v", got, err)
				}
			}
		}
	}
}

func TestNoBitOfASealedHandleCanBeChanged(t *testing.T) {
	tab := table(t, "/a", "/b")
	sealed := tab.Seal(nil, tab.All()[0], handle(t, 12))
	if _, err := tab.Find(sealed); err != nil {
		t.Fatal(err)
	}
	for bit := range len(sealed) * 8 {
		forged := slices.Clone(sealed)
		forged[bit/8] ^= 1 << (bit % 8)
		want := ErrForged
		if bit/8 >= len(sealed)-sealSize+markSize {
			want = ErrGone // so it is with the handles of another scope
		}
		if _, err := tab.Find(forged); err != want {
			t.Fatalf("bit %d changed: %v", bit, err)
		}
	}
	for n := range len(sealed) {
		if _, err := tab.Find(sealed[:n]); err != ErrForged {
			t.Fatalf("cut to %d: %v", n, err)
		}
	}
	if _, err := tab.Find(append(slices.Clone(sealed), 0)); err != ErrForged {
		t.Fatalf("one byte more: %v", err)
	}
}

func TestHandleOfAnotherKeyIsForged(t *testing.T) {
	tab, other := table(t, "/a"), NewTable([KeySize]byte{9})
	if err := other.Replace([]*Export{{Name: "/a"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := tab.Find(other.Seal(nil, other.All()[0], handle(t, 8))); err != ErrForged {
		t.Fatal(err)
	}
}

func TestHandleOfAnExportThatLeftIsGone(t *testing.T) {
	tab := table(t, "/a", "/b")
	b := tab.All()[1]
	sealed := tab.Seal(nil, b, handle(t, 8))
	if err := tab.Replace([]*Export{{Name: "/a"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := tab.Find(sealed); err != ErrGone {
		t.Fatal(err)
	}
}

// Find uses a cached handle only for the same handle. It checks other handles that have the same
// cache slot, forged ones too.
func TestRememberedHandlesAreNotMixedUp(t *testing.T) {
	tab := table(t, "/a", "/b")
	all := tab.All()
	const handles = 3 * cacheSlots
	sealed := make([][]byte, handles)
	named := make([]vfs.Handle, handles)
	for i := range sealed {
		var ok bool
		if named[i], ok = vfs.MakeHandle(binary.BigEndian.AppendUint32(nil, uint32(i))); !ok {
			t.Fatal("no handle")
		}
		sealed[i] = tab.Seal(nil, all[i%2], named[i])
	}
	for i, s := range sealed {
		if o, err := tab.Find(s); err != nil || o.Export != all[i%2] || o.Handle != named[i] {
			t.Fatalf("handle %d: %+v, %v", i, o, err)
		}
		forged := slices.Clone(s)
		forged[len(forged)-sealSize]++
		if o, err := tab.Find(forged); err != ErrForged {
			t.Fatalf("handle %d, forged: %+v, %v", i, o, err)
		}
	}
}

// Find of a cached handle returns the present export, not an earlier one.
func TestARememberedHandleFollowsTheTable(t *testing.T) {
	tab := table(t, "/a", "/b")
	sealed := tab.Seal(nil, tab.ByID(idOf("/b")), handle(t, 8))
	for round := range 3 {
		again := &Export{Name: "/b", Options: Options{ReadOnly: round == 1}}
		if err := tab.Replace([]*Export{{Name: "/a"}, again}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if o, err := tab.Find(sealed); err != nil || o.Export != again {
				t.Fatalf("round %d: %+v, %v", round, o, err)
			}
		}
		if err := tab.Replace([]*Export{{Name: "/a"}}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if o, err := tab.Find(sealed); err != ErrGone {
				t.Fatalf("round %d, gone: %+v, %v", round, o, err)
			}
		}
	}
}

func TestOpenOfARememberedHandleDoesNotAllocate(t *testing.T) {
	tab := table(t, "/a")
	sealed := tab.Seal(nil, tab.All()[0], handle(t, 16))
	if n := testing.AllocsPerRun(100, func() {
		if _, err := tab.Find(sealed); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func TestResolveTakesTheClosestExport(t *testing.T) {
	tab := table(t, "/", "/srv", "/srv/data")
	for _, c := range []struct {
		path, export string
		names        []string
	}{
		{"/srv", "/srv", nil},
		{"/srv/", "/srv", nil},
		{"/srv/data/x/y", "/srv/data", []string{"x", "y"}},
		{"/srv/database", "/srv", []string{"database"}},
		{"/home", "/", []string{"home"}},
		{"", "/", nil},
		{"/srv/../etc", "/", []string{"etc"}},
	} {
		e, names, ok := tab.Resolve(c.path)
		if !ok || e.Name != c.export || !slices.Equal(names, c.names) {
			t.Errorf("%q: %v %v %v", c.path, e, names, ok)
		}
	}
	if _, _, ok := table(t, "/srv").Resolve("/home"); ok {
		t.Error("/home resolved where only /srv is exported")
	}
}

func TestReplaceRefusesTwoOfOneName(t *testing.T) {
	tab := table(t)
	if err := tab.Replace([]*Export{{Name: "/a"}, {Name: "/a"}}); err == nil {
		t.Error("two exports named /a accepted")
	}
	if err := tab.Replace([]*Export{{Name: "a/"}}); err == nil {
		t.Error("a relative name accepted")
	}
}

func TestSquashing(t *testing.T) {
	user := rpc.Cred{Flavor: rpc.AuthSys, UID: 1000, GID: 100, Groups: []uint32{4, 0, 7}}
	wheel := rpc.Cred{Flavor: rpc.AuthSys, UID: 1000, Groups: []uint32{4}} // the primary group is 0
	root := rpc.Cred{Flavor: rpc.AuthSys, Groups: []uint32{0, 1}}
	none := rpc.Cred{Flavor: rpc.AuthNone}
	for _, c := range []struct {
		name   string
		squash Squash
		cred   *rpc.Cred
		want   vfs.Cred
	}{
		{"root squashed", RootSquash, &root, vfs.Cred{UID: 11, GID: 12}},
		{"user keeps himself but not group 0", RootSquash, &user, vfs.Cred{UID: 1000, GID: 100, Groups: []uint32{4, 12, 7}}},
		{"user whose own group is 0", RootSquash, &wheel, vfs.Cred{UID: 1000, GID: 12, Groups: []uint32{4}}},
		{"user whose own group is 0, not squashed", NoSquash, &wheel, vfs.Cred{UID: 1000, Groups: []uint32{4}}},
		{"nobody squashed", NoSquash, &root, vfs.Cred{Groups: []uint32{0, 1}}},
		{"all squashed", AllSquash, &user, vfs.Cred{UID: 11, GID: 12}},
		{"AUTH_NONE is anonymous even so", NoSquash, &none, vfs.Cred{UID: 11, GID: 12}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := Export{Options: Options{Squash: c.squash, AnonUID: 11, AnonGID: 12}}
			var as vfs.Cred
			e.Identify(c.cred, new(Looked), &as)
			if as.UID != c.want.UID || as.GID != c.want.GID || !slices.Equal(as.Groups, c.want.Groups) {
				t.Errorf("acts as %+v, want %+v", as, c.want)
			}
		})
	}
	if user.Groups[1] != 0 {
		t.Error("the caller's own groups were changed")
	}
}

func TestClientsAndPorts(t *testing.T) {
	e := Export{Clients: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fe80::/10")}, Options: Options{Secure: true}}
	for addr, want := range map[string]bool{
		"10.1.2.3": true, "::ffff:10.1.2.3": true, "11.0.0.1": false, "fe80::1%eth0": true, "::1": false,
	} {
		if got := e.ServesAddr(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: %v", addr, got)
		}
	}
	for _, privileged := range []bool{false, true} {
		for flavor, unproven := range map[rpc.Flavor]bool{rpc.AuthNone: true, rpc.AuthSys: true, rpc.AuthGSS: false} {
			near := &rpc.Conn{Peer: netip.MustParseAddrPort("10.0.0.1:2000"), Privileged: privileged}
			far := &rpc.Conn{Peer: netip.MustParseAddrPort("11.0.0.1:2000"), Privileged: privileged}
			cred := &rpc.Cred{Flavor: flavor}
			if got, want := e.Serves(near, cred), privileged || !unproven; got != want {
				t.Errorf("%v, privileged %v: served %v, want %v", flavor, privileged, got, want)
			}
			if e.Serves(far, cred) {
				t.Errorf("%v, privileged %v: served from an address that is no client's", flavor, privileged)
			}
		}
	}
}

// Replace does not write to exports that stay in the table, because calls use them.
func TestExportsThatStayAreNotWrittenTo(t *testing.T) {
	tab := table(t, "/a")
	stays := tab.All()[0]
	sealed := tab.Seal(nil, stays, handle(t, 8))
	var calls sync.WaitGroup
	for range 2 {
		calls.Go(func() {
			for range 100 {
				if found, err := tab.Find(sealed); err != nil || found.Export.ID != stays.ID {
					t.Errorf("%v", err)
				}
			}
		})
	}
	for range 100 {
		if err := tab.Replace([]*Export{stays, {Name: "/b"}}); err != nil {
			t.Fatal(err)
		}
	}
	calls.Wait()
}
