package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Defaults of a Config.
const (
	DefaultRDMAPort   = 20049
	DefaultTCPPort    = 2049
	DefaultStateDir   = "/var/lib/nfsrdmad"
	DefaultConfigFile = "/etc/nfsrdmad/nfsrdmad.toml"
)

// A Config is the complete configuration of a daemon. The TOML tags are the keys of the file.
type Config struct {
	// RDMA and TCP are the addresses to listen on. An address without a host means every address.
	// An empty list means the default port on every address; "none" means not to listen.
	RDMA []Listen `toml:"rdma"`
	TCP  []Listen `toml:"tcp"`
	// StateDir is the directory for data that outlives the process, such as the key that signs file
	// handles.
	StateDir string `toml:"state_dir"`
	// LogLevel is debug, info, warn or error; LogFormat text or json.
	LogLevel  Choice `toml:"log_level"`
	LogFormat Choice `toml:"log_format"`
	// Metrics is the address of the Prometheus endpoint; empty for none.
	Metrics string `toml:"metrics"`
	// Rpcbind says whether to register NFS and MOUNT with rpcbind, if rpcbind runs; nil means true.
	Rpcbind *bool `toml:"rpcbind"`
	// DrainTimeout is the longest time that the daemon waits for calls in progress after SIGTERM.
	DrainTimeout Duration `toml:"drain_timeout"`

	// BusyPoll is the longest time that a connection's goroutine polls for the next call before it
	// sleeps; 0 means that it does not poll.
	BusyPoll Duration `toml:"busy_poll"`

	Memory   Memory   `toml:"memory"`
	RNIC     RNIC     `toml:"rnic"`
	Limits   Limits   `toml:"limits"`
	NFS      NFS      `toml:"nfs"`
	Kerberos Kerberos `toml:"kerberos"`
	Exports  []Export `toml:"export"`

	file   string           // the configuration file
	origin map[string]place // where the user set each key
}

// Memory has the limits of memory that clients can use.
type Memory struct {
	// Ceiling is the limit of payload memory for all connections together, Connection the limit for
	// one.
	Ceiling    Size `toml:"ceiling"`
	Connection Size `toml:"connection"`
	// State is the limit of memory for the state of NFSv4 clients, in addition to payload memory.
	State Size `toml:"state"`
	// Replies is the limit of memory for the reply cache, which answers duplicate requests.
	Replies Size `toml:"replies"`
}

// RNIC configures RDMA connections.
type RNIC struct {
	// Provider is the provider of RDMA connections: auto, verbs or iwarp.
	Provider Choice `toml:"provider"`
	// DeviceMemory is the limit of memory for the messages of all connections over RDMA devices.
	DeviceMemory Size `toml:"device_memory"`
	// CRC is on, off or peer: whether the software RNIC asks for CRC32C (RFC 5044 §4.4). With peer
	// it does not ask, and uses CRCs only if the peer asks. Linux's siw does not ask.
	CRC Choice `toml:"crc"`
	// FPDU is the size of the FPDUs that the software RNIC sends: auto, mss, or a number of bytes.
	FPDU string `toml:"fpdu"`
	// Credits is the largest number of credits that the server grants to a connection. Inline is the
	// inline threshold in bytes.
	Credits int  `toml:"credits"`
	Inline  Size `toml:"inline"`
}

// Limits has the limits of connections, of their calls and of their times.
type Limits struct {
	// Connections is the largest number of connections over both transports; 0 for as many as the
	// limit of open files allows, but at most 32768. PerClient is the largest number for one client
	// address; 0 for half of Connections.
	Connections int `toml:"connections"`
	PerClient   int `toml:"connections_per_client"`
	// SetupTimeout is the time limit for the set-up of an RDMA connection, and, over either
	// transport, for the first message. FirstCallTimeout is the time limit for the first call that
	// names a file or directory of an export which serves the client. The server ends a connection
	// that exceeds a limit.
	SetupTimeout     Duration `toml:"setup_timeout"`
	FirstCallTimeout Duration `toml:"first_call_timeout"`
	// CallsInFlight is the number of calls of one TCP connection that may be in progress.
	CallsInFlight int `toml:"calls_in_flight"`
	// StallTimeout is the time after which a connection ends if its peer stops in the middle of a
	// message, does not answer an RDMA Read, or does not read its replies. IdleTimeout is the time
	// after which a TCP connection without calls ends; 0 means never.
	StallTimeout Duration `toml:"stall_timeout"`
	IdleTimeout  Duration `toml:"idle_timeout"`
}

// An Export is one [[export]] of the file, or one --export flag.
type Export struct {
	Path    Dir           `toml:"path"`
	Name    string        `toml:"name"`
	Options ExportOptions `toml:"options"`
}

// A place says where the user set a key: in a line of the file, or by a flag. Keys are dotted, with
// an index for elements of a list: "memory.ceiling", "export[0].path".
type place struct {
	file string // the file, or the flag, such as --export
	line int    // the line in the file; 0 for a flag
}

// Says reports whether the user set the key, even to zero.
func (c *Config) Says(key string) bool {
	_, said := c.origin[key]
	return said
}

// Read reads a TOML file. Unknown keys are errors. Missing keys get their defaults.
func Read(file string) (*Config, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, &Error{File: file, Err: fmt.Errorf("cannot read the configuration: %w; name another with --config", Cause(err))}
	}
	return parseConfig(file, b)
}

func parseConfig(file string, b []byte) (*Config, error) {
	c := &Config{file: file}
	var err error
	// readDocument finds the line of each key, and reports unknown keys and values of a wrong kind
	// in the user's words. The decoder below cannot do this.
	if c.origin, err = readDocument(file, b); err != nil {
		return nil, err
	}
	err = toml.NewDecoder(bytes.NewReader(b)).DisallowUnknownFields().Decode(c)
	var decode *toml.DecodeError
	switch {
	case errors.As(err, &decode):
		row, _ := decode.Position()
		text := strings.TrimPrefix(decode.Error(), "toml: ")
		if key := decode.Key(); len(key) > 0 {
			text = key[len(key)-1] + ": " + text
		}
		return nil, &Error{file, row, errors.New(text)}
	case err != nil:
		return nil, &Error{file, 0, err}
	}
	if err := c.Check(); err != nil {
		return nil, c.Fault(err)
	}
	return c, nil
}

// Differing returns the keys whose values differ between two checked configurations. It ignores
// exports.
func (c *Config) Differing(from *Config) (keys []string) {
	var compare func(prefix string, a, b reflect.Value)
	compare = func(prefix string, a, b reflect.Value) {
		for i := range a.NumField() {
			f := a.Type().Field(i)
			key := f.Tag.Get("toml")
			switch {
			case key == "" || key == "export":
			case isTable(f.Type):
				compare(prefix+key+".", a.Field(i), b.Field(i))
			case !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()):
				keys = append(keys, prefix+key)
			}
		}
	}
	compare("", reflect.ValueOf(c).Elem(), reflect.ValueOf(from).Elem())
	return keys
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

// A KeyError is an error in the value of one key. Config.Fault adds the place where the user set
// the key.
type KeyError struct {
	Key string // dotted, such as memory.ceiling: see place
	Err error
}

func (e *KeyError) Error() string { return e.Err.Error() }
func (e *KeyError) Unwrap() error { return e.Err }

// badValue returns the error for a key whose value is not allowed; found is that value.
func badValue(key string, found any, remedy string) error {
	return &KeyError{key, fmt.Errorf("%s = %v: %s", lastPart(key), found, remedy)}
}

// ExportKey returns the dotted key of the element of Config.Exports with the given index, such as
// "export[0]".
func ExportKey(index int) string { return fmt.Sprintf("export[%d]", index) }

// lastPart returns the key without the names of its tables.
func lastPart(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }

// Fault turns an error into an *Error. If it is about a key that the user set, the *Error names
// the line of the file, or the flag. Otherwise it names the file alone, or "configuration".
func (c *Config) Fault(err error) error {
	at := place{file: c.file}
	if at.file == "" {
		at.file = "configuration"
	}
	var about *KeyError
	if errors.As(err, &about) {
		if said, ok := c.origin[about.Key]; ok {
			at = said
		}
	}
	return &Error{File: at.file, Line: at.line, Err: err}
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
