package identity

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// databases holds getent's names of the databases, by kind.
var databases = [2]string{User: "passwd", Group: "group"}

func digits(id uint32) string { return strconv.FormatUint(uint64(id), 10) }

// look looks up the user or the group for which the function is returns true. key is its name, or the
// digits of its number.
func (m *Map) look(kind Kind, key string, is func(*account) bool) *entry {
	a, err := m.find(context.Background(), kind, key, is)
	e, age := &entry{failed: err != nil}, m.cfg.Age
	switch {
	case err != nil:
		age = failedFor
	case a == nil:
		age = m.cfg.UnknownAge
	default:
		e.name, e.id, e.found = a.name, a.id, true
	}
	e.until = m.cfg.Now().Add(age)
	return e
}

// An account is one line of passwd or group. hasGroup is true if it has a gid, as users have.
type account struct {
	name     string
	id, gid  uint32
	hasGroup bool
}

// parse reads a line of passwd or group. It returns nil if the line has no valid name or number.
func parse(line string) *account {
	f := strings.SplitN(strings.TrimRight(line, "\n"), ":", 5)
	if len(f) < 4 || !wellFormed([]byte(f[0])) {
		return nil
	}
	a := &account{name: f[0]}
	var ok bool
	if a.id, ok = ParseNumber([]byte(f[2])); !ok {
		return nil
	}
	a.gid, a.hasGroup = ParseNumber([]byte(f[3]))
	return a
}

// find returns the first account in the file for which the function is returns true. If there is
// none, find asks the services of the machine for key. It returns nil if their answer is no account,
// or is about another key, such as another spelling of the name.
func (m *Map) find(ctx context.Context, kind Kind, key string, is func(*account) bool) (a *account, err error) {
	fits := func(line string) bool {
		if a = parse(line); a != nil && !is(a) {
			a = nil
		}
		return a != nil
	}
	if err = eachLine(m.files[kind], func(line string) bool {
		return !strings.Contains(line, key) || !fits(line) // most lines are not about key: parse would cost more
	}); err != nil || a != nil {
		return a, err
	}
	answer, err := m.cfg.Ask(ctx, databases[kind], key)
	if err == nil {
		fits(string(answer))
	}
	return a, err
}

// eachLine calls f for each line of a file until f returns false. A missing file has no lines. A line,
// such as that of a group with many members, may have any length.
func eachLine(path string, f func(line string) bool) error {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	r := bufio.NewReader(file)
	for {
		line, err := r.ReadString('\n')
		if line != "" && !f(strings.TrimRight(line, "\r\n")) {
			return nil
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// maxGroups is the maximum number of groups of a user (NGROUPS_MAX of setgroups(2)). The package ignores
// further ones.
const maxGroups = 65536

// Account returns the user and groups of the account with the given name; ok is false if there is none. It
// does not use remembered answers, and may block. An error means that no answer was available.
func (m *Map) Account(name string) (uid, gid uint32, groups []uint32, ok bool, err error) {
	if !wellFormed([]byte(name)) {
		return 0, 0, nil, false, nil
	}
	ctx := context.Background()
	a, err := m.find(ctx, User, name, func(a *account) bool { return a.hasGroup && a.name == name })
	if a == nil || err != nil {
		return 0, 0, nil, false, err
	}
	if groups, err = m.groupsOf(ctx, name); err != nil {
		return 0, 0, nil, false, err
	}
	return a.id, a.gid, groups, true, nil
}

// GroupsOf is Account for a number, and returns the groups only, the account's own group first.
func (m *Map) GroupsOf(ctx context.Context, uid uint32) (groups []uint32, ok bool, err error) {
	a, err := m.find(ctx, User, digits(uid), func(a *account) bool { return a.hasGroup && a.id == uid })
	if a == nil || err != nil {
		return nil, false, err
	}
	groups, err = m.groupsOf(ctx, a.name)
	if i := slices.Index(groups, a.gid); i >= 0 {
		groups = slices.Delete(groups, i, i+1)
	}
	groups = slices.Insert(groups, 0, a.gid)
	return groups[:min(len(groups), maxGroups)], err == nil, err
}

// groupsOf returns the numbers of the groups that list a user as a member.
func (m *Map) groupsOf(ctx context.Context, name string) (groups []uint32, err error) {
	seen := make(map[uint32]bool)
	add := func(s string) {
		if id, ok := ParseNumber([]byte(s)); ok && len(groups) < maxGroups && !seen[id] {
			seen[id] = true
			groups = append(groups, id)
		}
	}
	err = eachLine(m.files[Group], func(line string) bool {
		f := strings.Split(line, ":")
		if len(f) >= 4 && slices.Contains(strings.Split(f[3], ","), name) {
			add(f[2])
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	// The answer has a line such as "name  1 2 3".
	answer, err := m.cfg.Ask(ctx, initgroups, name)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(answer)) {
		ids, about := strings.CutPrefix(line, name+" ")
		all := strings.Fields(ids)
		if !about || slices.ContainsFunc(all, func(id string) bool { _, ok := ParseNumber([]byte(id)); return !ok }) {
			continue // it is about another name, perhaps one that begins with this one and a blank
		}
		for _, id := range all {
			add(id)
		}
	}
	return groups, nil
}
