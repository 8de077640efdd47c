package exports

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// If a new list of exports replaces the present one, unchanged exports stay, in whatever order.
// Other exports are added, removed or replaced.
func TestUnchangedExportsStay(t *testing.T) {
	fs := memfs.New(memfs.Options{})
	o := NewSet(zap.NewNop(), export.NewTable([export.KeySize]byte{1}), nil)
	of := func(name string, readOnly bool) *export.Export {
		return &export.Export{Name: name, FS: fs, Options: export.Options{ReadOnly: readOnly}}
	}
	stays, changes, goes := of("/stays", true), of("/changes", true), of("/goes", false)
	if c, _, err := o.swap([]*export.Export{stays, changes, goes}); err != nil || len(c.Added) != 3 {
		t.Fatalf("%+v, %v", c, err)
	}
	again := of("/stays", true)
	c, unused, err := o.swap([]*export.Export{of("/comes", false), of("/changes", false), again})
	if err != nil || !slices.Equal(c.Added, []string{"/comes"}) || !slices.Equal(c.Replaced, []string{"/changes"}) || !slices.Equal(c.Removed, []string{"/goes"}) {
		t.Errorf("%+v, %v", c, err)
	}
	if !slices.Equal(unused, []*export.Export{again}) || o.now[2] != stays {
		t.Errorf("what did not change was replaced: %v", c.Replaced)
	}
	for _, c := range o.End() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The goroutine that closes idle mounts ends when no mount is open.
func TestDozeEndsWithoutMounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMounts(zap.NewNop(), export.NewTable([export.KeySize]byte{1}), nil)
		defer w.stop()
		w.dozing = true
		w.working.Go(w.doze)
		time.Sleep(mountTick + 1)
		w.mu.Lock()
		dozing := w.dozing
		w.mu.Unlock()
		if dozing {
			t.Error("it goes on")
		}
	})
}
