package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// CheckMemory compares the limits of memory with what this process can have, because the kernel would
// kill the process before calls begin to wait for memory. It returns an error if the user set one of
// them to more than that. If all together are more, it only returns a warning that says what to do.
func (c *Config) CheckMemory() (warning string, err error) {
	there, what := machineMemory()
	var sum Size
	var faults []error
	for _, key := range []string{"memory.ceiling", "memory.state", "memory.replies"} {
		limit := *c.field(key).(*Size)
		if sum += limit; limit > there && c.Says(key) {
			faults = append(faults, c.badValue(key, limit, fmt.Sprintf("%s is %v: use less, such as %v", what, wholeMegabytes(there), wholeMegabytes(there/4))))
		}
	}
	if len(faults) > 0 || sum <= there {
		return "", inOrder(faults)
	}
	return fmt.Sprintf("ceiling, state and replies in [memory] are %v together, and %s is %v: lower them", sum, what, wholeMegabytes(there)), nil
}

func wholeMegabytes(z Size) Size { return z &^ (1<<20 - 1) }

// machineMemory returns how much memory this process can have, and its source: the machine's
// memory, or the limit of the process's control group.
func machineMemory() (there Size, what string) {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 1 << 62, "memory"
	}
	there, what = Size(info.Totalram)*Size(info.Unit), "this machine's memory"
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return there, what
	}
	if limit, ok := groupLimit("/sys/fs/cgroup", string(groups)); ok && limit < there {
		return limit, "the limit of this process's control group"
	}
	return there, what
}

// groupLimit returns the lowest memory limit of the control groups in the text of
// /proc/self/cgroup (cgroups(7)) and of their parents. root is the directory where the control
// groups are mounted.
func groupLimit(root, text string) (lowest Size, ok bool) {
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, found := strings.Cut(rest, ":")
		base, file := root, "memory.max"
		switch {
		case !found:
			continue
		case controllers == "":
		case strings.Contains(","+controllers+",", ",memory,"):
			base, file = filepath.Join(root, "memory"), "memory.limit_in_bytes"
		default:
			continue
		}
		for path = filepath.Join("/", path); ; path = filepath.Dir(path) {
			if b, err := os.ReadFile(filepath.Join(base, path, file)); err == nil {
				if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && (!ok || Size(n) < lowest) {
					lowest, ok = Size(n), true
				}
			}
			if path == "/" {
				break
			}
		}
	}
	return lowest, ok
}

// Memlock returns how much memory this process may lock, in bytes.
func Memlock() uint64 {
	var r unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_MEMLOCK, &r)
	return r.Max
}
