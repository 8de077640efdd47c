//go:build kernel

package kernel

import (
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// TestWriteRemountCompare writes 64 MiB, mounts the export again and compares the content.
func TestWriteRemountCompare(t *testing.T) {
	over(t, func(t *testing.T, transport string) {
		serve(t, "sync").run(lab.Options{Limit: 2 * time.Minute}, "write_remount_compare", transport)
	})
}

// TestDirectIO reads and writes with O_DIRECT at odd offsets and lengths.
func TestDirectIO(t *testing.T) {
	over(t, func(t *testing.T, transport string) {
		serve(t, "sync").run(lab.Options{Limit: 2 * time.Minute}, "direct", transport)
	})
}

// TestMmap writes and reads a file through shared mappings.
func TestMmap(t *testing.T) {
	over(t, func(t *testing.T, transport string) {
		serve(t, "sync").run(lab.Options{Limit: 2 * time.Minute}, "mmap", transport)
	})
}

// TestTransferSizes copies the same file with rsize and wsize of 1 KiB, 4 KiB, 64 KiB and 1 MiB.
// The small sizes fit inline.
func TestTransferSizes(t *testing.T) {
	over(t, func(t *testing.T, transport string) {
		serve(t, "sync").run(lab.Options{Limit: 3 * time.Minute}, "transfer_sizes", transport)
	})
}

// TestManyConnections works over a mount with eight connections (nconnect=8).
func TestManyConnections(t *testing.T) {
	over(t, func(t *testing.T, transport string) {
		serve(t, "sync").run(lab.Options{Limit: 3 * time.Minute}, "nconnect", transport)
	})
}

// TestAppendByTwoClients makes two clients append to one file in turns.
func TestAppendByTwoClients(t *testing.T) {
	over(t, func(t *testing.T, transport string) {
		s := serve(t, "sync")
		first := s.boot(lab.Options{Limit: 3 * time.Minute}, "append", transport, "0", "150")
		second := s.boot(lab.Options{Limit: 3 * time.Minute}, "append", transport, "1", "150")
		first.Succeed()
		second.Succeed()
	})
}
