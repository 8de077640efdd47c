package lab

import (
	"fmt"
	"os"
	"testing"
)

// Folder makes a folder in this machine's memory that ends with the test: for what guests exchange with the test, for
// disk images, and for directories to be exported whose speed must not be a disk's.
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
