package pseudo_test

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/pseudo"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// The change attribute and the times of the directories change with everything that decides what a
// client sees in them, and with nothing else.
func TestChangeOfDirectories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := export.NewTable([export.KeySize]byte{})
		fs := pseudo.Attach(table)
		one, other := memfs.New(memfs.Options{}), memfs.New(memfs.Options{})
		serve := func(set func(e *export.Export)) {
			t.Helper()
			e := &export.Export{Name: "/exports/a", FS: one, Options: export.Options{CrossMount: true}}
			set(e)
			if err := table.Replace([]*export.Export{e}); err != nil {
				t.Fatal(err)
			}
		}
		look := func() (a vfs.Attr) {
			t.Helper()
			s := pseudo.Seen{FS: fs}
			if err := s.GetAttr(&vfs.Op{}, s.Root(), &a); err != nil {
				t.Fatal(err)
			}
			return a
		}
		serve(func(*export.Export) {})
		before := look()
		for _, c := range []struct {
			what    string
			change  func()
			changes bool
		}{
			{"a survey of mounts", func() { table.SetMounts(nil, nil) }, false},
			{"a reload without a change", func() { serve(func(*export.Export) {}) }, false},
			{"read-only", func() { serve(func(e *export.Export) { e.ReadOnly = true }) }, false},
			{"clients", func() {
				serve(func(e *export.Export) { e.Clients = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} })
			}, true},
			{"secure", func() { serve(func(e *export.Export) { e.Secure = true }) }, true},
			{"another name", func() { serve(func(e *export.Export) { e.Name = "/exports/b" }) }, true},
			{"another directory", func() { serve(func(e *export.Export) { e.Name, e.FS = "/exports/b", other }) }, one.Root() != other.Root()},
		} {
			time.Sleep(time.Second)
			c.change()
			after := look()
			if changed := after.Change != before.Change; changed != c.changes || (after.Mtime != before.Mtime) != c.changes || after.Ctime != after.Mtime {
				t.Errorf("%s: change %x, then %x; mtime %v, then %v", c.what, before.Change, after.Change, before.Mtime, after.Mtime)
			}
			before = after
		}
	})
}
