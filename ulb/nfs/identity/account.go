package identity

import (
	"slices"
	"strings"
)

// maxGroups is how many groups of a user are taken.
const maxGroups = 65536

// Account is who the user with a name is on this machine, with all groups. It looks
// nothing up in what is remembered, and may wait.
func (m *Map) Account(name string) (uid, gid uint32, groups []uint32, ok bool) {
	if !wellFormed([]byte(name)) {
		return 0, 0, nil, false
	}
	line := fileLine(m.files[User], func(f []string) bool { return f[0] == name })
	if line == "" {
		line = string(m.cfg.Ask("passwd", name))
	}
	f := strings.Split(line, ":")
	if len(f) < 4 || f[0] != name {
		return 0, 0, nil, false
	}
	uid, ok = ParseNumber([]byte(f[2]))
	gid, hasGroup := ParseNumber([]byte(f[3]))
	if !ok || !hasGroup {
		return 0, 0, nil, false
	}
	return uid, gid, m.groupsOf(name), true
}

// groupsOf are the numbers of the groups that a user is a member of.
func (m *Map) groupsOf(name string) (groups []uint32) {
	add := func(s string) {
		if id, ok := ParseNumber([]byte(s)); ok && len(groups) < maxGroups && !slices.Contains(groups, id) {
			groups = append(groups, id)
		}
	}
	eachLine(m.files[Group], func(line string) bool {
		f := strings.Split(line, ":")
		if len(f) >= 4 && slices.Contains(strings.Split(f[3], ","), name) {
			add(f[2])
		}
		return true
	})
	// "name  1 2 3"
	if f := strings.Fields(string(m.cfg.Ask("initgroups", name))); len(f) > 1 && f[0] == name {
		for _, id := range f[1:] {
			add(id)
		}
	}
	return groups
}
