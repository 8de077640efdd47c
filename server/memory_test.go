package server

import "testing"

// A file system that stalls holds half of the memory, unless there is no other to
// keep the rest for.
func TestMemoryForExports(t *testing.T) {
	for exports, group := range map[int]int64{1: 64 << 20, 2: 0, 3: 0} {
		s := &Server{cfg: new(Config)}
		s.cfg.Memory.Ceiling, s.cfg.Memory.Connection = 64<<20, 16<<20
		if c := s.memory(exports); c.Ceiling != 64<<20 || c.Share != 16<<20 || c.Group != group {
			t.Errorf("%d exports: %+v", exports, c)
		}
	}
}
