package server

import (
	"slices"
	"testing"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// Of a new list of exports, those that did not change stay as they are, whatever their
// order; the others come, go, or are replaced.
func TestWhatDidNotChangeStays(t *testing.T) {
	fs := memfs.New(memfs.Options{})
	o := &offers{log: zap.NewNop(), table: export.NewTable([export.KeySize]byte{1})}
	of := func(name string, readOnly bool) *export.Export {
		return &export.Export{Name: name, FS: fs, ReadOnly: readOnly}
	}
	stays, changes, goes := of("/stays", true), of("/changes", true), of("/goes", false)
	if c, _, err := o.swap([]*export.Export{stays, changes, goes}); err != nil || len(c.added) != 3 {
		t.Fatalf("%+v, %v", c, err)
	}
	again := of("/stays", true)
	c, unused, err := o.swap([]*export.Export{of("/comes", false), of("/changes", false), again})
	if err != nil || !slices.Equal(c.added, []string{"/comes"}) || !slices.Equal(c.replaced, []string{"/changes"}) || !slices.Equal(c.removed, []string{"/goes"}) {
		t.Errorf("%+v, %v", c, err)
	}
	if !slices.Equal(unused, []*export.Export{again}) || o.now[2] != stays {
		t.Errorf("what did not change was replaced: %v", c.replaced)
	}
	_, leaving := o.end()
	for _, l := range leaving {
		if err := l.wait(); err != nil {
			t.Error(err)
		}
	}
}
