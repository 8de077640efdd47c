package mountinfo

import (
	"path"
	"slices"
	"strings"
)

// A Tree finds the mounts that are mounted on a given mount.
type Tree struct {
	all []Mount
	on  map[uint64][]int // indices into all, by Parent
}

// NewTree returns the tree of a list of mounts, which the caller must not modify any more.
func NewTree(all []Mount) *Tree {
	t := &Tree{all: all, on: make(map[uint64][]int)}
	for i := range all {
		if m := &all[i]; m.ID != m.Parent {
			t.on[m.Parent] = append(t.on[m.Parent], i)
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
	points := make(map[string]int)
	var sorted []string
	for _, i := range t.on[top] {
		if p := t.all[i].Point; len(p) > len(prefix) && strings.HasPrefix(p, prefix) {
			points[p] = i
			sorted = append(sorted, p)
		}
	}
	slices.Sort(sorted)
	for _, p := range sorted {
		if hidden(points, p, len(prefix)) {
			continue
		}
		if m := t.uppermost(&t.all[points[p]]); visit(m, under) {
			t.below(m.ID, m.Point, m, visit)
		}
	}
}

// hidden reports whether one of the mount points in points lies between a directory and the path p,
// which is below the directory. The mount at that point hides p. The parameter start is the length
// of the directory's path and the slash behind it.
func hidden(points map[string]int, p string, start int) bool {
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
		i := slices.IndexFunc(t.on[m.ID], func(i int) bool { return t.all[i].Point == m.Point })
		if i < 0 {
			return m
		}
		m = &t.all[t.on[m.ID][i]]
	}
}
