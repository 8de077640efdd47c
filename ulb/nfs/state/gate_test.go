package state

import (
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
			if a := m.Ask(&Intent{Use: UseWrite, FS: fs, File: key.Handle, Op: &vfs.Op{Try: try}, Version3: true}); a != No {
				t.Errorf("try: %v: answer %d", try, a)
			}
		}
		if m.Client(late.ID) == nil {
			t.Error("the late client is gone, and won nothing")
		}
	})
}

// anonymously returns the answer to a caller of NFSv3 that does not want to wait.
func anonymously(m *Manager, fs vfs.FileSystem, key FileKey, use Use) Answer {
	return m.Ask(&Intent{Use: use, FS: fs, File: key.Handle, Op: &vfs.Op{Try: true}, Version3: true})
}
