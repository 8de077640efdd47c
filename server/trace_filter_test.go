package server

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// A trace of an export has the calls on mounts below it, and not those on other exports.
func TestTraceOfAnExportHasItsMounts(t *testing.T) {
	table := export.NewTable([export.KeySize]byte{1})
	one := &export.Export{Name: "/one", FS: memfs.New(memfs.Options{}), Options: export.Options{CrossMount: true}}
	two := &export.Export{Name: "/two", FS: memfs.New(memfs.Options{})}
	if err := table.Replace([]*export.Export{one, two}); err != nil {
		t.Fatal(err)
	}
	table.SetMounts([]export.Found{{Top: one, Under: "/one", Dir: "/d", Point: "/d/m", Name: "/one/m", ID: 7, Kind: "ext4", Root: "/"}}, nil)
	below := table.ByID(table.Mounts()[0].ExportID)
	f := traceFilter{export: one.ID, table: table}
	for e, want := range map[*export.Export]bool{one: true, below: true, two: false} {
		if f.has(&rpc.Ending{Steps: []rpc.Step{{Group: e.ID}}}) != want || f.has(&rpc.Ending{Subject: &export.Opened{Export: e}}) != want {
			t.Errorf("%s: not %v", e.Name, want)
		}
	}
}

// A call that was answered from the reply cache has not failed.
func TestRepeatedCallHasNotFailed(t *testing.T) {
	for status, failed := range map[rpc.Status]uint64{rpc.StatusReplayed: 0, rpc.StatusSuccess: 0, rpc.StatusAuthError: 1} {
		c := topCount{by: map[topKey]*topSum{}}
		c.count(&rpc.Ending{Event: rpc.Event{Conn: new(rpc.Conn), Status: status}})
		for k, s := range c.by {
			if s.failed != failed {
				t.Errorf("%v: %+v: %d failures", status, k, s.failed)
			}
		}
	}
}
