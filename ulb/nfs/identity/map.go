package identity

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// ErrUnknown: no user or group of this machine has this name or number.
var ErrUnknown = errors.New("identity: unknown")

// Kind says whether an identity is a user's or a group's.
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
	// DefaultDomain is the domain of a machine whose name has none, as other
	// implementations have it.
	DefaultDomain = "localdomain"
)

// Config is where a Map looks.
type Config struct {
	// Domain is what follows the '@' of names; "": that of the machine's name.
	Domain string
	// Passwd, Group and Switch (nsswitch.conf) are the files; "": those in /etc.
	Passwd, Group, Switch string
	// Ask looks a key up in a database ("passwd", "group", "initgroups") where the files
	// do not have it, and returns the line that tells of it (of initgroups, the lines), or nil,
	// or an error where it cannot tell. nil: the services of nsswitch.conf, by getent(1).
	Ask func(ctx context.Context, database, key string) ([]byte, error)
	// Age is how long what was found is taken for true, and UnknownAge that nothing
	// was; 0: DefaultAge, DefaultUnknownAge.
	Age, UnknownAge time.Duration
	// Now is the time; nil: time.Now.
	Now func() time.Time
}

// A Map translates. Its methods may be called from any goroutine. Those that look up what
// is not remembered read files and may start a process: with try they answer
// vfs.ErrWouldBlock instead.
type Map struct {
	cfg   Config
	files [2]string
	known [2]known // by Kind
	// names and numbers count what clients have looked up.
	names, numbers *looks
}

// New returns a Map.
func New(cfg Config) *Map {
	if cfg.Domain == "" {
		cfg.Domain = machineDomain()
	}
	if cfg.Age == 0 {
		cfg.Age = DefaultAge
	}
	if cfg.UnknownAge == 0 {
		cfg.UnknownAge = DefaultUnknownAge
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	m := &Map{cfg: cfg, files: [2]string{"/etc/passwd", "/etc/group"},
		names: newLooks(nameBurst, nameEvery), numbers: newLooks(numberBurst, numberEvery)}
	if cfg.Ask == nil {
		m.cfg.Ask = m.getent
	}
	if cfg.Switch == "" {
		m.cfg.Switch = switchFile
	}
	if cfg.Passwd != "" {
		m.files[User] = cfg.Passwd
	}
	if cfg.Group != "" {
		m.files[Group] = cfg.Group
	}
	return m
}

// machineDomain is the domain of the machine's name.
func machineDomain() string {
	name, _ := os.Hostname() // "" where there is none
	return domainOf(name)
}

// domainOf is what follows the first label of a machine's name.
func domainOf(name string) string {
	if _, domain, _ := strings.Cut(name, "."); domain != "" {
		return domain
	}
	return DefaultDomain
}

// Domain is what follows the '@' of names.
func (m *Map) Domain() string { return m.cfg.Domain }

// Number is the number of a user or a group that a client names: the digits of a number,
// or a name with this Map's domain. ErrUnknown if there is no such user or group,
// vfs.ErrDelay if that cannot be told at present, or the client's address has named too many
// that had to be looked up.
func (m *Map) Number(client netip.Addr, kind Kind, sent []byte, try bool) (uint32, error) {
	if id, ok := ParseNumber(sent); ok {
		return id, nil
	}
	name, domain, ok := bytes.Cut(sent, []byte{'@'})
	if !ok || !strings.EqualFold(string(domain), m.cfg.Domain) || !wellFormed(name) {
		return 0, ErrUnknown
	}
	now := m.cfg.Now()
	k := &m.known[kind]
	if e, ok := k.byName(string(name), now); ok {
		return e.result()
	}
	switch may := m.names.may(client, now, !try); {
	case !may:
		return 0, vfs.ErrDelay
	case try:
		return 0, vfs.ErrWouldBlock
	}
	e := m.look(kind, string(name))
	k.keepName(string(name), e, now)
	return e.result()
}

// Append appends the name with its domain of a user or a group to b, or the digits of
// its number if it has no name, or if the client's address has asked for too many that had to
// be looked up.
func (m *Map) Append(b []byte, client netip.Addr, kind Kind, id uint32, try bool) ([]byte, error) {
	now := m.cfg.Now()
	k := &m.known[kind]
	e, ok := k.byNumber(id, now)
	if !ok {
		switch may := m.numbers.may(client, now, !try); {
		case !may:
			return append(b, digits(id)...), nil
		case try:
			return b, vfs.ErrWouldBlock
		}
		e = m.look(kind, digits(id))
		k.keepNumber(id, e, now)
	}
	if !e.found {
		return append(b, digits(id)...), nil
	}
	return append(append(append(b, e.name...), '@'), m.cfg.Domain...), nil
}

// maxName is the longest name that is looked up, in bytes.
const maxName = 255

// wellFormed says whether a name can be one of a database: no field of a line ends in
// it, and no option of a command begins with it.
func wellFormed(name []byte) bool {
	if len(name) == 0 || len(name) > maxName || name[0] == '-' || !utf8.Valid(name) {
		return false
	}
	for _, c := range name {
		if c <= ' ' || c == ':' || c == ',' || c == '/' || c == 0x7f {
			return false
		}
	}
	return true
}
