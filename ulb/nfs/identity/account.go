package identity

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// maxGroups is the maximum number of groups of a user. The package ignores further ones.
const maxGroups = 65536

// errNoAccount: the user does not exist.
var errNoAccount = errors.New("identity: no account")

// Account returns the user and groups of the account that has the given name on this machine. ok is
// false if there is no such account. Account does not use remembered answers, and may block. An
// error means that no answer was available.
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

// GroupsOf returns the groups of the user that has the number uid on this machine, the account's
// own group first. ok is false if there is no such user. GroupsOf does not use remembered answers,
// and may block until ctx ends. An error means that no answer was available.
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

// account is one user, as in passwd.
type account struct {
	name     string
	uid, gid uint32
}

// account returns the first account in passwd in which one field equals key: field is the index of
// that field, from 0. If the file has none, account asks the services of the machine for key. If
// they have none either, it returns errNoAccount.
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
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			for _, id := range f[1:] {
				add(id)
			}
		}
	}
	return groups, nil
}
