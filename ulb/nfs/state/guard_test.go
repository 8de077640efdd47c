package state

import (
	"errors"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A client whose lease ran out keeps its opens as long as another client with a valid lease
// denies the use as well, because its eviction would not help the caller.
func TestUseIsDeniedByAllThatDenyIt(t *testing.T) {
	timed(t, Config{Records: &disk{}}, func(t *testing.T, m *Manager) {
		fs := &struct{ vfs.FileSystem }{}
		key := FileKey{fs, fileKey(1).Handle}
		late := holder(t, m, identity("late", 1, "me"))
		open(t, m, late, "owner", key, AccessRead, AccessWrite)
		pass(2 * leaseTime)
		live := holder(t, m, identity("live", 1, "me"))
		open(t, m, live, "owner", key, AccessRead, AccessWrite)
		for _, try := range []bool{true, false} {
			if err := m.Guard(fs, key.Handle, UseWrite, try); !errors.Is(err, ErrDenied) {
				t.Errorf("try: %v: %v", try, err)
			}
		}
		if m.Client(late.ID) == nil {
			t.Error("the late client is gone, and won nothing")
		}
	})
}
