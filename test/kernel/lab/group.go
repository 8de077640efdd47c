package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// groupsRoot returns the directory at which this machine has mounted its control groups of version
// 2, or "" if there is none.
func groupsRoot() string {
	text, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[2] == "cgroup2" {
			return fields[1]
		}
	}
	return ""
}

// newGroup creates a control group with that name and opens it.
func newGroup(name string) (*os.File, error) {
	root := groupsRoot()
	if root == "" {
		return nil, errors.New("this machine has no control groups of version 2, which systemd needs: mount -t cgroup2 cgroup2 DIRECTORY")
	}
	path := filepath.Join(root, name)
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, fmt.Errorf("a control group for systemd: %w", err)
	}
	return os.Open(path)
}

// endGroup removes the control group with that name, and the groups in it, if it exists. Their
// processes have been killed, but the kernel may still be ending them.
func endGroup(name string) error {
	root := groupsRoot()
	if root == "" {
		return nil
	}
	var err error
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var groups []string
		filepath.WalkDir(filepath.Join(root, name), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				groups = append(groups, path)
			}
			return nil
		})
		if len(groups) == 0 {
			return nil
		}
		// A group can be removed when the groups in it are gone.
		for _, group := range slices.Backward(groups) {
			err = os.Remove(group)
		}
	}
	return err
}
