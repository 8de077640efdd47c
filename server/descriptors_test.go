package server

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
)

// The largest numbers of descriptors for the daemon, calls, files and connections, including
// connections that are being closed, never add up to more than the limit, and files get at least a
// fifth, up to mostForFiles.
func TestDescriptorsAreSharedOut(t *testing.T) {
	for _, wanted := range []int{0, 10, 5000, 1 << 20} {
		last := 0
		for limit := 128; limit < 2<<20; limit += 1 + limit/50 {
			d := divide(limit, wanted)
			seats, files := d.seats, d.files
			connections := seats + census.Spare(seats)
			calls := limit - ownDescriptors - d.callbacks - connections - files
			if calls < min(mostForCalls, (limit-ownDescriptors)/callsPart) {
				t.Errorf("of %d descriptors, %d are left for calls beside %d connections and %d files", limit, calls, connections, files)
			}
			if files < (limit-ownDescriptors)/5 {
				t.Errorf("of %d descriptors, %d are for files", limit, files)
			}
			if seats < last || wanted > 0 && seats > wanted {
				t.Errorf("%d descriptors allow %d connections of %d, fewer allow %d", limit, seats, wanted, last)
			}
			last = seats
		}
	}
	for _, c := range []struct{ limit, wanted, want int }{
		{600, 0, 231}, {600, 5000, 353}, {1024, 0, 426}, {20000, 12000, 12000}, {65536, 0, 31094}, {1 << 20, 0, mostConnections}, {1 << 20, 50, 50}, {0, 0, 1},
	} {
		if n := divide(c.limit, c.wanted).seats; n != c.want {
			t.Errorf("%d descriptors allow %d connections, %d are wanted; want %d", c.limit, n, c.wanted, c.want)
		}
	}
}

// The limit of open files is the hard limit, because Go's runtime raises the soft limit
// at the start of a process.
func TestLimitOfOpenFilesIsRaised(t *testing.T) {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		t.Fatal(err)
	}
	if n := descriptorLimit(); r.Cur != r.Max || n != int(min(r.Max, 1<<30)) {
		t.Errorf("%d of %d, at most %d", n, r.Cur, r.Max)
	}
}
