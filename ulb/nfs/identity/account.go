package identity

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// maxGroups is how many groups of a user are taken.
const maxGroups = 65536

// errNoAccount: there is no such user.
var errNoAccount = errors.New("identity: no account")

// Account is who the user with a name is on this machine, with all groups; false where there
// is no such user. It looks nothing up in what is remembered, and may wait. An error says
// that there was no answer.
func (m *Map) Account(name string) (uid, gid uint32, groups []uint32, ok bool, err error) {
	if !wellFormed([]byte(name)) {
		return 0, 0, nil, false, nil
	}
	ctx := context.Background()
	a, err := m.account(ctx, name, 0)
	switch {
	case errors.Is(err, errNoAccount), err == nil && a.name != name:
		return 0, 0, nil, false, nil
	case err != nil:
		return 0, 0, nil, false, err
	}
	if groups, err = m.groupsOf(ctx, name); err != nil {
		return 0, 0, nil, false, err
	}
	return a.uid, a.gid, groups, true, nil
}

// GroupsOf are the groups of the user with a number on this machine, that of the account
// first; false where there is no such user. It looks nothing up in what is remembered, and
// may wait, until ctx ends. An error says that there was no answer.
func (m *Map) GroupsOf(ctx context.Context, uid uint32) (groups []uint32, ok bool, err error) {
	a, err := m.account(ctx, digits(uid), 2)
	switch {
	case errors.Is(err, errNoAccount), err == nil && a.uid != uid:
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	groups, err = m.groupsOf(ctx, a.name)
	if i := slices.Index(groups, a.gid); i >= 0 {
		groups = slices.Delete(groups, i, i+1)
	}
	return slices.Insert(groups, 0, a.gid), err == nil, err
}

// account is a user as passwd has it.
type account struct {
	name     string
	uid, gid uint32
}

// account finds the one of which a field of its line, counted from 0, is key.
func (m *Map) account(ctx context.Context, key string, field int) (account, error) {
	line, err := fileLine(m.files[User], func(f []string) bool { return f[field] == key })
	if err != nil {
		return account{}, err
	}
	if line == "" {
		answer, err := m.cfg.Ask(ctx, databases[User], key)
		if err != nil {
			return account{}, err
		}
		line = string(answer)
	}
	f := strings.Split(line, ":")
	if len(f) < 4 || !wellFormed([]byte(f[0])) {
		return account{}, errNoAccount
	}
	uid, ok := ParseNumber([]byte(f[2]))
	gid, hasGroup := ParseNumber([]byte(f[3]))
	if !ok || !hasGroup {
		return account{}, errNoAccount
	}
	return account{f[0], uid, gid}, nil
}

// groupsOf are the numbers of the groups that a user is a member of.
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
	// "name  1 2 3"
	answer, err := m.cfg.Ask(ctx, initgroups, name)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(answer)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			for _, id := range f[1:] {
				add(id)
			}
		}
	}
	return groups, nil
}
