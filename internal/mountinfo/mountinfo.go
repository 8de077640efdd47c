// Package mountinfo reads /proc/self/mountinfo (proc(5)), the list of mounts that this process
// sees, and finds the mounts below a directory.
package mountinfo

import (
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// File is the path of the list.
const File = "/proc/self/mountinfo"

// A Mount is a line of /proc/self/mountinfo. Its strings keep the text of the file in memory.
type Mount struct {
	// ID is the mount's ID, and Parent the ID of the mount on which it is mounted. The kernel uses
	// an ID again once its mount is gone.
	ID, Parent uint64
	// Device is the file system's st_dev, as "major:minor".
	Device string
	// Root is the mounted directory of the file system, and Point the path where it is mounted.
	Root, Point string
	// Kind is the type of the file system, such as "ext4".
	Kind string
	// Owner is the number of the user that mounted a FUSE file system and whose process answers its
	// requests (mount.fuse(8), user_id=). It is "" for user 0, and for other file systems.
	Owner string
}

var reads atomic.Uint64

// Reads returns how often the process has called Read. With ten thousand mounts, each call takes some 50 ms.
func Reads() uint64 { return reads.Load() }

// Read returns the present mounts. It waits for no file system.
func Read() ([]Mount, error) {
	reads.Add(1)
	text, err := os.ReadFile(File)
	if err != nil {
		return nil, err
	}
	return Parse(string(text)), nil
}

// Parse is Read for a given text. It skips invalid lines.
func Parse(text string) []Mount {
	all := make([]Mount, 0, strings.Count(text, "\n"))
	for line := range strings.Lines(text) {
		if m, ok := parseLine(strings.TrimSuffix(line, "\n")); ok {
			all = append(all, m)
		}
	}
	return all
}

// parseLine reads "ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAG...] - TYPE SOURCE OPTIONS".
func parseLine(line string) (m Mount, ok bool) {
	head, tail, _ := strings.Cut(line, " - ")
	var f [5]string
	for i := range f {
		if f[i], head, ok = strings.Cut(head, " "); !ok {
			return m, false
		}
	}
	var err error
	if m.ID, err = strconv.ParseUint(f[0], 10, 64); err != nil {
		return m, false
	}
	if m.Parent, err = strconv.ParseUint(f[1], 10, 64); err != nil {
		return m, false
	}
	m.Device, m.Root, m.Point = f[2], unescape(f[3]), unescape(f[4])
	m.Kind, tail, _ = strings.Cut(tail, " ")
	if m.Kind == "fuse" || m.Kind == "fuseblk" || strings.HasPrefix(m.Kind, "fuse.") || strings.HasPrefix(m.Kind, "fuseblk.") {
		_, options, _ := strings.Cut(tail, " ")
		m.Owner = fuseOwner(options)
	}
	return m, m.Kind != ""
}

// fuseOwner returns Mount.Owner of a FUSE file system with the given options.
func fuseOwner(options string) string {
	for o := range strings.SplitSeq(options, ",") {
		if id, is := strings.CutPrefix(o, "user_id="); is && id != "0" {
			return id
		}
	}
	return ""
}

// Find returns the mount with the given ID, or nil; it searches the list all.
func Find(all []Mount, id uint64) *Mount {
	for i := range all {
		if all[i].ID == id {
			return &all[i]
		}
	}
	return nil
}

// unescape decodes blanks, line ends and backslashes from a backslash and three octal digits.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

// A Tree finds the mounts that are mounted on a given mount.
type Tree struct {
	on map[uint64][]*Mount // by Parent
}

// NewTree returns the tree of a list of mounts, which the caller must not modify any more.
func NewTree(all []Mount) *Tree {
	t := &Tree{make(map[uint64][]*Mount)}
	for i := range all {
		if m := &all[i]; m.ID != m.Parent {
			t.on[m.Parent] = append(t.on[m.Parent], m)
		}
	}
	return t
}

// Below calls visit for each mount m that is reachable by a path from the directory dir. The
// parameter top is the ID of the mount that contains the directory. Below skips mounts that another
// mount hides. If m is mounted on the mount top, the parameter under is nil, otherwise it is the
// mount on which m is mounted. If visit returns true, Below continues with the mounts below m.
func (t *Tree) Below(top uint64, dir string, visit func(m, under *Mount) bool) {
	t.below(top, dir, nil, visit)
}

func (t *Tree) below(top uint64, dir string, under *Mount, visit func(m, under *Mount) bool) {
	prefix := strings.TrimSuffix(dir, "/") + "/"
	points := make(map[string]*Mount)
	for _, m := range t.on[top] {
		if len(m.Point) > len(prefix) && strings.HasPrefix(m.Point, prefix) {
			points[m.Point] = m
		}
	}
	for _, p := range slices.Sorted(maps.Keys(points)) {
		if hidden(points, p, len(prefix)) {
			continue
		}
		if m := t.uppermost(points[p]); visit(m, under) {
			t.below(m.ID, m.Point, m, visit)
		}
	}
}

// hidden reports whether one of the mount points in points lies between a directory and the path p,
// which is below the directory. The mount at that point hides p. The parameter start is the length
// of the directory's path and the slash behind it.
func hidden(points map[string]*Mount, p string, start int) bool {
	for p = path.Dir(p); len(p) > start; p = path.Dir(p) {
		if _, there := points[p]; there {
			return true
		}
	}
	return false
}

// uppermost returns the visible mount at the path of m. That is m, unless other mounts are mounted
// onto it there; then it is the last of these.
func (t *Tree) uppermost(m *Mount) *Mount {
	// A mount can only be mounted onto an older one; so this loop ends.
	for {
		i := slices.IndexFunc(t.on[m.ID], func(over *Mount) bool { return over.Point == m.Point })
		if i < 0 {
			return m
		}
		m = t.on[m.ID][i]
	}
}

// A Watcher waits for changes of the mounts, by poll(2) on /proc/self/mountinfo (proc(5)).
type Watcher struct {
	fd, stop int
}

// Watch returns a Watcher. Every mount or unmount from now on is a change.
func Watch() (*Watcher, error) {
	fd, err := unix.Open(File, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", File, err)
	}
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	return &Watcher{fd, stop}, nil
}

// Changed waits for a change since its last call, and returns true. It returns false after Stop or
// an error; the caller then calls Close.
func (w *Watcher) Changed() bool {
	fds := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLPRI}, {Fd: int32(w.stop), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(fds, -1)
		switch {
		case err == unix.EINTR:
		case err != nil || fds[1].Revents != 0:
			return false
		default:
			return true
		}
	}
}

// Stop makes this and all later calls of Changed return false. Any goroutine may call it before Close.
func (w *Watcher) Stop() { _, _ = unix.Write(w.stop, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

// Close releases the Watcher's descriptors. After it, the caller must not call Changed or Stop.
func (w *Watcher) Close() {
	unix.Close(w.fd)
	unix.Close(w.stop)
}
