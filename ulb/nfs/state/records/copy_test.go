package records

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Read finds what Open would not go on with, though the content is whole.
func TestReadFindsTheEndOfTheStarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clients")
	c := content{starts: mostStarts}
	b, _ := c.whole()
	must(t, os.WriteFile(path, b, 0o600))
	_, opened := Open(path)
	_, read := Read(path)
	want, _ := errors.AsType[*Damaged](opened)
	if got, ok := errors.AsType[*Damaged](read); !ok || want == nil || *got != *want {
		t.Errorf("read: %v; opened: %v", read, opened)
	}
}
