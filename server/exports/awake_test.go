package exports

import (
	"fmt"
	"testing"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
)

// crowd opens as many mounts of one type and owner as w allows, at most n, and leaves them in the state
// opening or open. It returns how many those are.
func crowd(w *mounts, kind, owner string, n int, opening bool) (taken int) {
	for range n {
		m := &export.Mount{Found: export.Found{Name: fmt.Sprint(kind, owner, taken), Kind: kind, Owner: owner}}
		if !w.mayBeginLocked(m) || len(w.rivalsLocked(m)) > 0 {
			break
		}
		w.open[m] = opening
		taken++
	}
	return taken
}

func newCrowd(t *testing.T, most int) *mounts {
	w := newMounts(zap.NewNop(), &export.Table{}, nil)
	t.Cleanup(w.end)
	w.most = most
	return w
}

// File systems of one type and owner that do not answer leave others a place to be opened, whatever has
// been opening before.
func TestPlacesToOpenAreShared(t *testing.T) {
	w := newCrowd(t, mostAwake)
	left := mostOpening
	for _, c := range []struct{ kind, owner string }{{"fuse.x", "1000"}, {"nfs4", ""}, {"fuse.x", "1001"}, {"ext4", ""}, {"fuse.y", "1002"}} {
		got := crowd(w, c.kind, c.owner, mostOpening, true)
		if got != max(left/2, 1) {
			t.Errorf("%v: %d are being opened of %d", c, got, left)
		}
		left -= got
	}
}

// A user's file systems that are open, and cannot be closed, leave others room; those of the kernel take
// all that there is.
func TestPlacesOfOpenMountsAreShared(t *testing.T) {
	for _, most := range []int{2, 5, mostAwake} {
		w := newCrowd(t, most)
		own := crowd(w, "fuse.x", "1000", most, false)
		if own != most/2 {
			t.Errorf("a user has %d of %d", own, most)
		}
		if more := crowd(w, "fuse.y", "1000", most, false); more != 0 {
			t.Errorf("the user has %d more by another type of file system", more)
		}
		if disks := crowd(w, "ext4", "", most, false); disks != most-own {
			t.Errorf("disks have %d of %d", disks, most-own)
		}
	}
}

// The mounts below exports get their descriptors from those of the exports: together they never have more than before.
// A second start of the watch takes nothing more.
func TestMountsTakeTheirPartFromTheExports(t *testing.T) {
	all := NewFilesystems(t.TempDir(), zap.NewNop(), descriptors)
	w := newMounts(zap.NewNop(), &export.Table{}, all)
	t.Cleanup(func() { w.stop() })
	for range 2 {
		w.startWatch()
		if mounts, exports := w.descriptors.Limit(), all.Descriptors.Limit(); mounts != descriptors/mountsPart || mounts+exports != descriptors {
			t.Errorf("mounts may hold %d descriptors, exports %d: %d together", mounts, exports, descriptors)
		}
	}
}
