package export

import (
	"net/netip"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// An export has the account of the former export with its name, if that was there until then. A mount counts for the
// export above it.
func TestAccountOfAnExport(t *testing.T) {
	table := NewTable([KeySize]byte{})
	c := &rpc.Conn{ID: 17, Peer: netip.MustParseAddrPort("192.0.2.1:700")}
	replace := func(names ...string) {
		var all []*Export
		for _, name := range names {
			all = append(all, &Export{Name: name, FS: memfs.New(memfs.Options{})})
		}
		if err := table.Replace(all); err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) *Export {
		e, _, ok := table.Resolve(name)
		if !ok || e.Name != name {
			t.Fatalf("%s is not there", name)
		}
		return e
	}
	replace("/a", "/b")
	at("/a").Did(c, Reading, false)
	at("/a").DidRead(c, 100)
	at("/a").Did(c, Writing, true)
	first := at("/a")
	replace("/a", "/b")
	first.Did(c, Other, false) // a call that began before
	at("/a").DidWrite(c, 7)
	mount := newMount(Found{Name: "/a/mount", Top: at("/a")}, nil)
	mount.now.Load().Did(c, Other, false)
	want := Account{Failed: 1, Read: 100, Written: 7}
	want.Operations = [kinds]uint64{1, 1, 2}
	if got := at("/a").Account(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := at("/b").Account(); got != (Account{}) {
		t.Errorf("/b: %+v", got)
	}
	replace("/b")
	replace("/a", "/b")
	if got := at("/a").Account(); got != (Account{}) {
		t.Errorf("another export of this name begins with %+v", got)
	}
	(&Export{}).Did(c, Other, true)
	b := at("/b")
	if n := testing.AllocsPerRun(100, func() { b.Did(c, Reading, false); b.DidRead(c, 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
