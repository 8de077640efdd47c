package export

import (
	"net/netip"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// No call can enter a retired export. The export is idle once the last call has left, on whichever
// connection.
func TestRetiredExportIsIdleAfterTheLastCall(t *testing.T) {
	e := new(Export)
	conns := []*rpc.Conn{{ID: 1}, {ID: 2}, {ID: 1 + stripes}}
	for _, c := range conns {
		if !e.Enter(c) {
			t.Fatal("an export lets a call not in")
		}
	}
	idle := e.Retire()
	for i, c := range conns {
		if e.Enter(c) {
			t.Fatal("a retired export lets a call in")
		}
		select {
		case <-idle:
			t.Fatalf("it is idle while %d calls are in it", len(conns)-i)
		default:
		}
		e.Leave(c)
	}
	<-idle
	if e.Enter(conns[0]) {
		t.Error("an idle export lets a call in")
	}
	<-new(Export).Retire()
}

// If calls enter and leave while an export is being retired, the export becomes idle, and then no
// call is inside.
func TestRetireWhileCallsEnter(t *testing.T) {
	for range 200 {
		e := new(Export)
		var in atomic.Int64
		var callers sync.WaitGroup
		for id := range 8 {
			c := &rpc.Conn{ID: uint64(id / 2)} // two goroutines for each connection
			callers.Go(func() {
				for e.Enter(c) {
					in.Add(1)
					in.Add(-1)
					e.Leave(c)
				}
			})
		}
		<-e.Retire()
		if n := in.Load(); n != 0 {
			t.Fatalf("%d calls are in an idle export", n)
		}
		callers.Wait()
	}
}

// Two exports are the same if all options that a user can set are equal.
func TestSameExport(t *testing.T) {
	clients := func() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} }
	usual := func() *Export { return &Export{Name: "/a", Clients: clients(), ID: 5} }
	if e := usual(); !e.Same(&Export{Name: "/a", Clients: clients()}) {
		t.Error("the same export is another")
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Export]()) {
		e := usual()
		v := reflect.ValueOf(e).Elem().FieldByIndex(f.Index)
		switch {
		case !f.IsExported() || f.Name == "ID":
			continue
		case v.Kind() == reflect.String:
			v.SetString("/b")
		case v.Kind() == reflect.Bool:
			v.SetBool(true)
		case v.CanUint():
			v.SetUint(1)
		case v.Kind() == reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		case f.Name == "FS":
			e.FS = new(asleep)
		case f.Name == "Options": // VisibleFields also lists its fields
			continue
		}
		if e.Same(usual()) {
			t.Errorf("another %s is not seen", f.Name)
		}
	}
}
