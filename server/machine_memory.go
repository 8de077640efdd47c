package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// checkMemory refuses a ceiling that the user gave and that is more than there
// is: the process would be killed where calls are to wait. The default is only
// warned of.
func (c *Config) checkMemory(log *zap.Logger) error {
	there, what := machineMemory()
	if c.Memory.Ceiling <= there {
		return nil
	}
	remedy := fmt.Sprintf("%s is %v: use half of that at most, %v", what, wholeMegabytes(there), wholeMegabytes(there/2))
	if c.says("memory.ceiling") {
		return badValue("memory.ceiling", c.Memory.Ceiling, remedy)
	}
	log.Warn("payload memory may take more than there is: set ceiling in [memory]", zap.Stringer("ceiling", c.Memory.Ceiling), zap.String("because", remedy))
	return nil
}

func wholeMegabytes(z Size) Size { return z &^ (1<<20 - 1) }

// machineMemory is how much memory this process can have, and what says so: the
// machine's, or the limit of a control group that the process is in.
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

// groupLimit is the lowest memory limit of the groups in the text of
// /proc/self/cgroup (cgroups(7)) and of those above them, below root.
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
