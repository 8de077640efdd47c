package lab

import (
	"fmt"
	"os"
	"testing"
)

// Folder creates a folder in this machine's memory and removes it at the end of the test. It is
// for files that guests exchange with the test, for disk images, and for exported directories
// that have to be faster than a disk.
func Folder(t testing.TB, name string) string {
	t.Helper()
	folder, err := os.MkdirTemp("/dev/shm", fmt.Sprintf("%s%d-%s-", networkPrefix, os.Getpid(), name))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	return folder
}
