package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
)

// Defaults of a Config.
const (
	DefaultRDMAPort   = 20049
	DefaultTCPPort    = 2049
	DefaultStateDir   = "/var/lib/nfsrdmad"
	DefaultConfigFile = "/etc/nfsrdmad/nfsrdmad.toml"
)

// A Config is the complete configuration of a daemon. A field with a TOML tag is the key of this
// name: docs/configuration.md, which is generated from the variable settings, says what the key
// means. Config.Check replaces zero values by the defaults.
type Config struct {
	RDMA []Listen `toml:"rdma"`
	TCP  []Listen `toml:"tcp"`
	// RDMAVersions has the versions of RPC-over-RDMA that the daemon speaks, in rising order.
	RDMAVersions []int  `toml:"rdma_versions"`
	StateDir     string `toml:"state_dir"`
	LogLevel     string `toml:"log_level"`
	LogFormat    string `toml:"log_format"`
	Metrics      string `toml:"metrics"`
	// StatusPage is the address of the status page, a loopback address unless StatusPageOpen is true.
	StatusPage     string `toml:"status_page"`
	StatusPageOpen bool   `toml:"status_page_open"`
	// AdminSocket is a path, or "none": see AdminPath.
	AdminSocket string `toml:"admin_socket"`
	// Rpcbind is nil if the user did not set the key, which means true.
	Rpcbind      *bool    `toml:"rpcbind"`
	DrainTimeout Duration `toml:"drain_timeout"`
	BusyPoll     Duration `toml:"busy_poll"`
	SlowCall     Duration `toml:"slow_call"`
	Strict       bool     `toml:"strict"`

	Memory   Memory   `toml:"memory"`
	RNIC     RNIC     `toml:"rnic"`
	Limits   Limits   `toml:"limits"`
	NFS      NFS      `toml:"nfs"`
	Kerberos Kerberos `toml:"kerberos"`
	Exports  []Export `toml:"export"`

	file string // the configuration file
	// origin has an Error without a cause for each key that the user set: in a line of the file, or by
	// a flag. Keys are dotted, with an index for elements of a list: "memory.ceiling",
	// "export[0].path".
	origin map[string]Error
	// notes are about exports that were converted from another server's file.
	notes []Note
	// wrong has the keys of the file with a value that cannot be used, and the tables with an unknown key.
	wrong map[string]bool
}

// Memory is the table [memory]: limits of memory that clients can use.
type Memory struct {
	Ceiling    Size `toml:"ceiling"`
	Connection Size `toml:"connection"`
	State      Size `toml:"state"`
	Replies    Size `toml:"replies"`
}

// RNIC is the table [rnic]: RDMA connections.
type RNIC struct {
	Provider     string `toml:"provider"`
	DeviceMemory Size   `toml:"device_memory"`
	CRC          string `toml:"crc"`
	FPDU         string `toml:"fpdu"`
	Credits      int    `toml:"credits"`
	Inline       Size   `toml:"inline"`
}

// Limits is the table [limits]: limits of connections, of their calls and of their times.
// Connections and PerClient are 0 if the server is to choose them, and IdleTimeout is 0 for none.
type Limits struct {
	Connections      int      `toml:"connections"`
	PerClient        int      `toml:"connections_per_client"`
	SetupTimeout     Duration `toml:"setup_timeout"`
	FirstCallTimeout Duration `toml:"first_call_timeout"`
	CallsInFlight    int      `toml:"calls_in_flight"`
	StallTimeout     Duration `toml:"stall_timeout"`
	IdleTimeout      Duration `toml:"idle_timeout"`
}

// NFS is the table [nfs]. Versions has some of NFSVersions.
type NFS struct {
	Versions  []string `toml:"versions"`
	LeaseTime Duration `toml:"lease_time"`
	GraceTime Duration `toml:"grace_time"`
	Owners    string   `toml:"owners"`
	Domain    string   `toml:"domain"`
}

// Kerberos is the table [kerberos]. SplitPrincipal reads an entry of Principals.
type Kerberos struct {
	Keytab     string   `toml:"keytab"`
	Realm      string   `toml:"realm"`
	Account    string   `toml:"account"`
	Principals []string `toml:"principals"`
}

// An Export is one [[export]] of the file, or one --export flag.
type Export struct {
	Path    Dir           `toml:"path"`
	Name    string        `toml:"name"`
	Options ExportOptions `toml:"options"`
}

// NFSVersions has all versions of NFS, in the form of mount's option vers=.
var NFSVersions = []string{"3", "4.0", "4.1", "4.2"}

// Serves reports whether the daemon serves a version of NFS. version is one of NFSVersions.
func (c *Config) Serves(version string) bool { return slices.Contains(c.NFS.Versions, version) }

// SpeaksRDMA reports whether the daemon speaks a version of RPC-over-RDMA.
func (c *Config) SpeaksRDMA(version int) bool { return slices.Contains(c.RDMAVersions, version) }

// Notes returns the notes on the exports that came from files in the form of /etc/exports. Each is one line that
// begins with the file and the line number.
func (c *Config) Notes() []Note { return c.notes }

// Says reports whether the user set the key, even to zero.
func (c *Config) Says(key string) bool {
	_, said := c.origin[key]
	return said
}

// Read reads a TOML file. Unknown keys are errors. Missing keys get their defaults.
func Read(file string) (*Config, error) { return ReadWith(file, nil) }

// ReadWith is like Read, and applies flags, which may be nil, over the file's configuration (Flags). The
// file may be "", for none. The error joins an *Error for each error in the file and the flags, in the
// order of the lines.
func ReadWith(file string, f *Flags) (*Config, error) {
	var b []byte
	if file != "" {
		var err error
		if b, err = os.ReadFile(file); err != nil {
			return nil, &Error{File: file, Err: fmt.Errorf("cannot read the configuration: %w; name another with --config", Cause(err))}
		}
	}
	return parse(file, b, f)
}

func parseConfig(file string, b []byte) (*Config, error) { return parse(file, b, nil) }

func parse(file string, b []byte, f *Flags) (*Config, error) {
	c := &Config{file: file}
	faults, whole := readDocument(c, b)
	if f != nil {
		faults = append(faults, c.overlay(f)...)
	}
	if whole {
		faults = append(faults, c.faults()...)
	}
	if err := inOrder(faults); err != nil {
		return nil, err
	}
	return c, nil
}

// inOrder joins errors, those in lines of the file first, in the order of the lines.
func inOrder(faults []error) error {
	line := func(err error) int {
		if at, ok := errors.AsType[*Error](err); ok && at.Line > 0 {
			return at.Line
		}
		return math.MaxInt
	}
	slices.SortStableFunc(faults, func(a, b error) int { return cmp.Compare(line(a), line(b)) })
	return errors.Join(faults...)
}

// isWrong notes that the file sets a key to a value that cannot be used.
func (c *Config) isWrong(key string) {
	if c.wrong == nil {
		c.wrong = make(map[string]bool)
	}
	c.wrong[key] = true
}

// Differing returns the keys whose values differ between two checked configurations: if reloads is
// true, those whose changes a reload applies (Described.Reloads), otherwise those whose changes take
// effect at the next start. It ignores exports.
func (c *Config) Differing(from *Config, reloads bool) (keys []string) {
	for i := range settings {
		s := &settings[i]
		if s.reloads == reloads && !strings.HasPrefix(s.key, "export.") && !reflect.DeepEqual(c.field(s.key), from.field(s.key)) {
			keys = append(keys, s.key)
		}
	}
	return keys
}

// Keep gives a key outside of [[export]] the value that it has in from.
func (c *Config) Keep(key string, from *Config) {
	reflect.ValueOf(c.field(key)).Elem().Set(reflect.ValueOf(from.field(key)).Elem())
}

// field returns a pointer to the field that has the value of a key outside of [[export]].
func (c *Config) field(key string) any {
	at := reflect.ValueOf(c).Elem()
	for name := range strings.SplitSeq(key, ".") {
		f, _ := field(at.Type(), name)
		at = at.FieldByIndex(f.Index)
	}
	return at.Addr().Interface()
}

// An Error reports, in one line, where a configuration is wrong and what to do about it.
type Error struct {
	File string // the file, or the flag, such as --export
	Line int    // the line in the file, or 0 if it is not known
	Err  error
}

func (e *Error) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err)
	}
	return fmt.Sprintf("%s: %v", e.File, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// badValue returns the error for a key whose value is not allowed; found is that value.
func (c *Config) badValue(key string, found any, remedy string) error {
	return c.At(fmt.Errorf("%s = %v: %s", lastPart(key), found, remedy), key)
}

// ExportKey returns the dotted key of the element of Config.Exports with the given index, such as
// "export[0]".
func ExportKey(index int) string { return fmt.Sprintf("export[%d]", index) }

// PathKey returns the dotted key of the path of that element.
func PathKey(index int) string { return ExportKey(index) + ".path" }

// lastPart returns the key without the names of its tables.
func lastPart(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }

// At returns an *Error that wraps err, an error in the values of keys. It names the line of the file,
// or the flag, of the first key that the user set. If the user set none of them, or no key is given,
// it names the file alone, or "configuration".
func (c *Config) At(err error, keys ...string) error {
	at := Error{File: cmp.Or(c.file, "configuration")}
	if i := slices.IndexFunc(keys, c.Says); i >= 0 {
		at = c.origin[keys[i]]
	}
	at.Err = err
	return &at
}

// Cause returns the innermost error, usually the kernel's. Unlike the errors around it, it does not
// repeat the path that the message already has.
func Cause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// Check sets defaults and checks all values. The error joins an *Error for each wrong value.
func (c *Config) Check() error { return inOrder(c.faults()) }

func (c *Config) faults() (all []error) {
	for i := range settings {
		if check := settings[i].check; check != nil {
			if err := check(c); err != nil {
				all = append(all, err)
			}
		}
	}
	return append(all, c.exportFaults()...)
}

// exportFaults checks the paths and names of the exports.
func (c *Config) exportFaults() (all []error) {
	seen := make(map[string]bool)
	var tree []*export.Export
	for i := range c.Exports {
		e := &c.Exports[i]
		if e.Path.Path == "" {
			if !c.wrong[PathKey(i)] && !c.wrong[ExportKey(i)] {
				all = append(all, c.At(errors.New("this [[export]] has no path: add path = \"/the/directory\""), ExportKey(i)))
			}
			continue
		}
		name, err := e.ExportName()
		if err == nil && seen[name] {
			err = fmt.Errorf("two exports have the name %q: give one of them another, by the key name, or as --export DIR:/name", name)
		}
		if err != nil {
			all = append(all, c.At(err, ExportKey(i)+".name", ExportKey(i)))
			continue
		}
		seen[name] = true
		one := &export.Export{Name: name}
		e.Options.Apply(one)
		tree = append(tree, one)
		if err := export.CheckTree(tree); err != nil {
			tree = tree[:len(tree)-1]
			all = append(all, c.At(err, ExportKey(i)+".options", ExportKey(i)))
		}
	}
	return all
}

// CheckListening rejects a configuration that listens nowhere, or twice at one address.
func (c *Config) CheckListening() error {
	type directive struct {
		key string
		Listen
	}
	var all []directive
	add := func(key string, listen []Listen) {
		for _, l := range listen {
			if !l.None {
				all = append(all, directive{key, l})
			}
		}
	}
	add("rdma", c.RDMA)
	add("tcp", c.TCP)
	if len(all) == 0 {
		return c.At(errors.New(`nothing to listen on: rdma and tcp are both "none"; give one of them an address such as ":2049"`), "tcp", "rdma")
	}
	for i, a := range all {
		for _, b := range all[:i] {
			switch {
			case !Collide(a.Addr, b.Addr):
			case a.key == b.key:
				return c.badValue(a.key, fmt.Sprintf("%q and %q", b, a), "these are one port of one address: leave one of them out")
			default:
				return c.At(fmt.Errorf("%s = %q and %s = %q are one port: RDMA is carried in TCP here; give it a port of its own, such as %d",
					b.key, b, a.key, a, DefaultRDMAPort), a.key, b.key)
			}
		}
	}
	return nil
}

// Collide reports whether one machine cannot listen for TCP at both addresses. The unspecified IPv6 address [::]
// also covers all IPv4 addresses. Port 0 is one that the kernel chooses.
func Collide(a, b netip.AddrPort) bool {
	covers := func(a, b netip.Addr) bool { return a == b || a.IsUnspecified() && (a.Is6() || b.Is4()) }
	one, other := a.Addr().Unmap(), b.Addr().Unmap()
	return a.Port() != 0 && a.Port() == b.Port() && (covers(one, other) || covers(other, one))
}
