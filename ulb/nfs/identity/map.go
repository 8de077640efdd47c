package identity

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// ErrUnknown: this machine has no user or group with this name or number.
var ErrUnknown = errors.New("identity: unknown")

// Kind is the kind of an identity: user or group.
type Kind uint8

// Kinds of identities.
const (
	User Kind = iota
	Group
)

// Defaults of Config.
const (
	DefaultAge        = 10 * time.Minute
	DefaultUnknownAge = 30 * time.Second
	// DefaultDomain is the domain if the machine's name has none, as in other implementations of NFSv4.
	DefaultDomain = "localdomain"
)

// Config holds the settings of a Map.
type Config struct {
	// Domain is the part of names after '@'; "" means the domain of the machine's name.
	Domain string
	// Passwd, Group and Switch (nsswitch.conf) are the paths of the files; "" means the one in /etc.
	Passwd, Group, Switch string
	// Ask looks a key up in a database ("passwd", "group", "initgroups"). The Map calls it after it has
	// read the files. Ask returns the line about key (for initgroups the lines), nil if there is none, or
	// an error if it cannot tell. If Ask is nil, the Map uses getent(1).
	Ask func(ctx context.Context, database, key string) ([]byte, error)
	// Age is how long a found answer is valid, and UnknownAge how long "not found" is. 0 means
	// DefaultAge and DefaultUnknownAge.
	Age, UnknownAge time.Duration
	// Now returns the time. If it is nil, the Map uses time.Now.
	Now func() time.Time
}

// A Map translates between names and numbers of users and groups. Its methods may be called from any
// goroutine. For a key that it does not remember, a method reads files and may start a process; if try
// is true, it returns vfs.ErrWouldBlock instead.
type Map struct {
	cfg   Config
	files [2]string
	// byName and byNumber hold the remembered entries of each Kind; names and numbers limit the look-ups.
	byName         [2]remembered[string]
	byNumber       [2]remembered[uint32]
	names, numbers *looks
}

// New returns a Map.
func New(cfg Config) *Map {
	if cfg.Domain == "" {
		name, _ := os.Hostname() // "" if there is none
		cfg.Domain = domainOf(name)
	}
	cfg.Age, cfg.UnknownAge = cmp.Or(cfg.Age, DefaultAge), cmp.Or(cfg.UnknownAge, DefaultUnknownAge)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Switch = cmp.Or(cfg.Switch, switchFile)
	m := &Map{
		cfg: cfg, files: [2]string{User: cmp.Or(cfg.Passwd, "/etc/passwd"), Group: cmp.Or(cfg.Group, "/etc/group")},
		names: newLooks(nameBurst, nameEvery), numbers: newLooks(numberBurst, numberEvery),
	}
	if cfg.Ask == nil {
		m.cfg.Ask = m.getent
	}
	return m
}

// domainOf returns the part of a machine's name after the first label, or DefaultDomain.
func domainOf(name string) string {
	if _, domain, _ := strings.Cut(name, "."); domain != "" {
		return domain
	}
	return DefaultDomain
}

// Domain returns the part of names after '@'.
func (m *Map) Domain() string { return m.cfg.Domain }

// Number returns the number of a user or a group that a client names by digits, or by a name in this
// Map's domain. It returns ErrUnknown if there is none, and vfs.ErrDelay if no answer is available at
// present, or if the client's address has caused too many look-ups.
func (m *Map) Number(client netip.Addr, kind Kind, sent []byte, try bool) (uint32, error) {
	if id, ok := ParseNumber(sent); ok {
		return id, nil
	}
	// A name may contain an '@' itself, as names of a machine that is joined to several domains do.
	at := bytes.LastIndexByte(sent, '@')
	if at < 0 || !strings.EqualFold(string(sent[at+1:]), m.cfg.Domain) || !wellFormed(sent[:at]) {
		return 0, ErrUnknown
	}
	name := string(sent[:at])
	now := m.cfg.Now()
	if e, ok := m.byName[kind].get(name, now); ok {
		return e.result()
	}
	switch may := m.names.may(client, now, !try); {
	case !may:
		return 0, vfs.ErrDelay
	case try:
		return 0, vfs.ErrWouldBlock
	}
	e := m.look(kind, name, func(a *account) bool { return a.name == name })
	m.byName[kind].keep(name, e, now)
	return e.result()
}

// Append appends the name and domain of a user or a group to b, or the digits of the number if there is
// no name, or if the client's address has caused too many look-ups.
func (m *Map) Append(b []byte, client netip.Addr, kind Kind, id uint32, try bool) ([]byte, error) {
	now := m.cfg.Now()
	e, ok := m.byNumber[kind].get(id, now)
	if !ok {
		switch may := m.numbers.may(client, now, !try); {
		case !may:
			return append(b, digits(id)...), nil
		case try:
			return b, vfs.ErrWouldBlock
		}
		e = m.look(kind, digits(id), func(a *account) bool { return a.id == id })
		m.byNumber[kind].keep(id, e, now)
	}
	if !e.found {
		return append(b, digits(id)...), nil
	}
	return append(append(append(b, e.name...), '@'), m.cfg.Domain...), nil
}

// maxName is the length of the longest name that is looked up, in bytes.
const maxName = 255

// wellFormed reports whether a name can stand in a database: it contains no separator of fields, has a
// blank only between other characters, and does not look like an option of a command.
func wellFormed(name []byte) bool {
	if len(name) == 0 || len(name) > maxName || name[0] == '-' || name[0] == ' ' || name[len(name)-1] == ' ' || !utf8.Valid(name) {
		return false
	}
	for _, c := range name {
		if c < ' ' || c == ':' || c == ',' || c == '/' || c == 0x7f {
			return false
		}
	}
	return true
}

// ParseNumber reads an identity that was sent as digits (RFC 8881 §5.9, RFC 7530 §5.9). The
// number 1<<32-1 is not an identity, because file systems take it for "leave unchanged".
func ParseNumber(name []byte) (id uint32, ok bool) {
	if len(name) == 0 || len(name) > 1 && name[0] == '0' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(name), 10, 32)
	return uint32(n), err == nil && n < 1<<32-1
}

// maxKnown is the largest number of entries in each map of remembered look-ups. Entries that exist and
// those that do not have separate maps, so that names that clients invent never displace existing ones.
// A full map loses its expired entries, or all entries if none has expired.
const maxKnown = 8192

// An entry is the result of a look-up: a name with its number, or "not found", or "no answer".
type entry struct {
	name   string
	id     uint32
	found  bool
	failed bool
	until  time.Time
}

func (e *entry) result() (uint32, error) {
	switch {
	case e.failed:
		return 0, vfs.ErrDelay
	case !e.found:
		return 0, ErrUnknown
	}
	return e.id, nil
}

// remembered holds the entries of users or of groups, by name or by number. The zero value is empty.
type remembered[K comparable] struct {
	mu             sync.RWMutex
	found, missing map[K]*entry
}

// get returns the entry of a key that has not expired. ok is false if there is none.
func (r *remembered[K]) get(key K, now time.Time) (e *entry, ok bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if e = r.found[key]; e != nil && now.Before(e.until) {
		return e, true
	}
	e = r.missing[key]
	return e, e != nil && now.Before(e.until)
}

func (r *remembered[K]) keep(key K, e *entry, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := &r.missing
	if e.found {
		m = &r.found
	}
	if len(*m) >= maxKnown && (*m)[key] == nil {
		maps.DeleteFunc(*m, func(_ K, old *entry) bool { return !now.Before(old.until) })
		if len(*m) >= maxKnown {
			clear(*m)
		}
	}
	if *m == nil {
		*m = make(map[K]*entry)
	}
	(*m)[key] = e
}
