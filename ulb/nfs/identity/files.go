package identity

import (
	"bufio"
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
)

// databases holds getent's names of the databases, by kind.
var databases = [2]string{User: "passwd", Group: "group"}

func digits(id uint32) string { return strconv.FormatUint(uint64(id), 10) }

// look looks up a user or a group by its name, or by the digits of its number: first in the file,
// then through Config.Ask.
func (m *Map) look(kind Kind, key string) *entry {
	line, err := fileLine(m.files[kind], func(f []string) bool { return f[0] == key || f[2] == key })
	e := parse(line)
	if err == nil && (!e.found || e.name != key && digits(e.id) != key) {
		var answer []byte
		answer, err = m.cfg.Ask(context.Background(), databases[kind], key)
		e = parse(string(answer))
	}
	if err != nil {
		e = &entry{failed: true}
	}
	if e.found && e.name != key && digits(e.id) != key {
		// The answer is about another key, such as another spelling of the name.
		e.found = false
	}
	age := m.cfg.Age
	switch {
	case e.failed:
		age = failedFor
	case !e.found:
		age = m.cfg.UnknownAge
	}
	e.until = m.cfg.Now().Add(age)
	return e
}

// parse reads a line of passwd or group. The name is the first field, the number the third.
func parse(line string) *entry {
	f := strings.Split(strings.TrimRight(line, "\n"), ":")
	if len(f) < 4 {
		return &entry{}
	}
	id, ok := ParseNumber([]byte(f[2]))
	return &entry{name: f[0], id: id, found: ok && wellFormed([]byte(f[0]))}
}

// maxLine is the length of the longest line that is read, in bytes. The line of a group with
// many members is long.
const maxLine = 1 << 20

// fileLine splits each line of a file into fields at the colons, and passes the fields to fits. It
// returns the first line for which fits returns true, or "" if there is none.
func fileLine(path string, fits func(fields []string) bool) (found string, err error) {
	err = eachLine(path, func(line string) bool {
		if f := strings.SplitN(line, ":", 5); len(f) >= 4 && fits(f) {
			found = line
		}
		return found == ""
	})
	return found, err
}

// eachLine calls f for each line of a file until f returns false. A missing file has no
// lines.
func eachLine(path string, f func(line string) bool) error {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	s := bufio.NewScanner(file)
	s.Buffer(make([]byte, 0, 4096), maxLine)
	for s.Scan() && f(s.Text()) {
	}
	return s.Err()
}

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
