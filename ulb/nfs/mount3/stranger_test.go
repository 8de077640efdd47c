package mount3_test

import (
	"fmt"
	"net/netip"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
)

// processorTime returns the processor time that f takes on this thread.
func processorTime(t *testing.T, f func()) time.Duration {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(1, &u); err != nil { // RUSAGE_THREAD
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	f()
	return used() - before
}

// A caller that no export serves costs the same whether the list of mounts is empty or full,
// whichever procedure it calls.
func TestStrangersCostAConstant(t *testing.T) {
	serving := func() *site {
		return newSite(t, manners[0], &export.Export{
			Name: "/a", Clients: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Options: export.Options{Squash: export.NoSquash},
		})
	}
	empty, full := serving(), serving()
	for i := range 4096 {
		full.from(fmt.Sprintf("10.%d.%d.1:700", i/250, i%250), true)
		full.mnt("/a")
	}
	if n := len(full.dump()); n != 4096 {
		t.Fatalf("%d mounts are listed, not 4096", n)
	}
	path := func(w *xdr.Writer) { w.String("/a") }
	for _, c := range []struct {
		name string
		proc wire.Procedure
		args func(w *xdr.Writer)
	}{
		{"NULL", wire.ProcNull, nil}, {"MNT", wire.ProcMnt, path}, {"DUMP", wire.ProcDump, nil},
		{"UMNT", wire.ProcUmnt, path}, {"UMNTALL", wire.ProcUmntall, nil}, {"EXPORT", wire.ProcExport, nil},
	} {
		cost := func(s *site) (least time.Duration) {
			s.from("203.0.113.5:700", true)
			least = time.Hour
			for range 5 {
				least = min(least, processorTime(t, func() {
					for range 500 {
						s.call(c.proc, c.args)
					}
				}))
			}
			return least
		}
		// The former list took some hundred times as long when it was full.
		if a, b := cost(empty), cost(full); b > 10*a+time.Millisecond {
			t.Errorf("500 calls of %s take %v of processor time beside a full list, and %v beside an empty one", c.name, b, a)
		}
	}
	if n := len(full.dump()); n != 0 {
		t.Errorf("a stranger is shown %d mounts", n)
	}
}

// If the list is full, the oldest mount makes room, whichever client and export it is of. A host that
// unmounts takes only its own mounts away.
func TestMountListKeepsTheNewest(t *testing.T) {
	s := newSite(t, manners[0],
		&export.Export{Name: "/a", Options: export.Options{Squash: export.NoSquash}},
		&export.Export{Name: "/b", Options: export.Options{Squash: export.NoSquash}})
	for i := range 4100 {
		s.from(fmt.Sprintf("10.%d.%d.1:700", i/250, i%250), true)
		s.mnt([]string{"/a", "/b"}[i%2])
	}
	all := s.dump()
	if len(all) != 4096 || all[0] != "10.0.4.1:/a" || all[2048] != "10.0.5.1:/b" || all[4095] != "10.16.99.1:/b" {
		t.Fatalf("DUMP lists %d mounts: %q, %q ... %q", len(all), all[0], all[len(all)/2], all[len(all)-1])
	}
	s.call(wire.ProcUmntall, nil)
	if got := s.dump(); len(got) != 4095 || got[4094] != "10.16.97.1:/b" {
		t.Errorf("after UMNTALL of 10.16.99.1: %d mounts, the last %q", len(got), got[len(got)-1])
	}
}

// A list longer than a reply may be ends with a whole entry.
func TestDumpIsCutAtTheLongestReply(t *testing.T) {
	s := newSite(t, manners[0], &export.Export{Name: "/a", Options: export.Options{Squash: export.NoSquash}})
	long := fmt.Sprintf("%0250d", 0)
	s.mkdir(long, 0o755)
	for i := range 4000 {
		s.from(fmt.Sprintf("10.%d.%d.1:700", i/250, i%250), true)
		s.mnt("/a/" + long)
	}
	if n := len(s.dump()); n < 800 || n > 1000 {
		t.Errorf("DUMP lists %d mounts of 280 bytes", n)
	}
}
