package server

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
)

// Calls to one file system can hold at most half of the payload memory, unless the server has
// only one file system.
func TestMemoryForExports(t *testing.T) {
	one, crossing := &export.Export{Name: "/one"}, &export.Export{Name: "/two", Options: export.Options{CrossMount: true}}
	for _, c := range []struct {
		exports []*export.Export
		group   int64
	}{{[]*export.Export{one}, 64 << 20}, {[]*export.Export{crossing}, 0}, {[]*export.Export{one, crossing}, 0}} {
		s := &Server{cfg: new(config.Config)}
		s.cfg.Memory.Ceiling, s.cfg.Memory.Connection = 64<<20, 16<<20
		if got := s.memory(c.exports); got.Ceiling != 64<<20 || got.Share != 16<<20 || got.Group != c.group {
			t.Errorf("%d exports: %+v", len(c.exports), got)
		}
	}
}
