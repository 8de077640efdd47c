package vfs_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

func TestNames(t *testing.T) {
	const longest = 255
	for name, want := range map[string]error{
		"":                                   syscall.EINVAL,
		"a":                                  nil,
		".":                                  nil,
		"..":                                 nil,
		"...":                                nil,
		"\xff new\nline":                     nil,
		"/":                                  syscall.EINVAL,
		"a/b":                                syscall.EINVAL,
		"a\x00b":                             syscall.EINVAL,
		strings.Repeat("n", longest):         nil,
		strings.Repeat("n", longest+1):       syscall.ENAMETOOLONG,
		strings.Repeat("n", longest-1) + "/": syscall.EINVAL,
	} {
		if err := vfs.CheckName([]byte(name), longest); err != want {
			t.Errorf("%.10q, %d bytes: %v, want %v", name, len(name), err, want)
		}
		if got := vfs.IsDot([]byte(name)); got != (name == "." || name == "..") {
			t.Errorf("%.10q is taken for a dot: %v", name, got)
		}
	}
}
