package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
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
	// StateDir keeps the data that survives the process: the key of handles, and indexes.
	StateDir string `toml:"state_dir"`
	// LogLevel is debug, info, warn or error; LogFormat text or json.
	LogLevel  Choice `toml:"log_level"`
	LogFormat Choice `toml:"log_format"`
	// Metrics is the address of the Prometheus endpoint; empty for none.
	Metrics string `toml:"metrics"`
	// Rpcbind registers NFS and MOUNT with rpcbind, if that runs.
	Rpcbind *bool `toml:"rpcbind"`
	// DrainTimeout bounds how long SIGTERM waits for calls in progress.
	DrainTimeout Duration `toml:"drain_timeout"`

	// BusyPoll is the longest time that a connection's goroutine polls for the next call before
	// it sleeps; 0 for none.
	BusyPoll Duration `toml:"busy_poll"`

	Memory   Memory   `toml:"memory"`
	RNIC     RNIC     `toml:"rnic"`
	Limits   Limits   `toml:"limits"`
	NFS      NFS      `toml:"nfs"`
	Kerberos Kerberos `toml:"kerberos"`
	Exports  []Export `toml:"export"`

	file   string           // the file it was read from
	origin map[string]place // the places of the keys that were set
}

// Memory bounds payload memory.
type Memory struct {
	// Ceiling is the bound for all connections together, Connection that for one.
	Ceiling    Size `toml:"ceiling"`
	Connection Size `toml:"connection"`
	// State bounds the state of NFSv4 clients, in addition to payload memory.
	State Size `toml:"state"`
	// Replies bounds the duplicate-request cache.
	Replies Size `toml:"replies"`
}

// RNIC configures RDMA connections.
type RNIC struct {
	// Provider carries RDMA: auto, verbs or iwarp.
	Provider Choice `toml:"provider"`
	// DeviceMemory bounds what messages of connections over RDMA devices take.
	DeviceMemory Size `toml:"device_memory"`
	// CRC is on, off or peer: whether the software RNIC demands CRC32C, or lets the peer decide
	// (RFC 5044 §4.4; Linux's siw does not demand it).
	CRC Choice `toml:"crc"`
	// FPDU is auto, mss, or the largest FPDU in bytes.
	FPDU string `toml:"fpdu"`
	// Credits is the number granted to each connection. Inline is the inline threshold.
	Credits int  `toml:"credits"`
	Inline  Size `toml:"inline"`
}

// Limits bounds what peers can use.
type Limits struct {
	// Connections is the largest number of connections over both transports; 0 for as many as the
	// limit of open files allows. PerClient is the largest number for one client address; 0 for
	// half of Connections.
	Connections int `toml:"connections"`
	PerClient   int `toml:"connections_per_client"`
	// SetupTimeout bounds the set-up of a connection, and the wait for its first message.
	// FirstCallTimeout bounds the wait for a first call that makes its client known.
	SetupTimeout     Duration `toml:"setup_timeout"`
	FirstCallTimeout Duration `toml:"first_call_timeout"`
	// CallsInFlight is how many calls of one TCP connection are served at a time.
	CallsInFlight int `toml:"calls_in_flight"`
	// StallTimeout ends a connection whose peer stops in the middle of something. IdleTimeout
	// ends a TCP connection without calls; 0 for never.
	StallTimeout Duration `toml:"stall_timeout"`
	IdleTimeout  Duration `toml:"idle_timeout"`
}

// An Export is one [[export]] of the file, or one --export flag.
type Export struct {
	Path    Dir           `toml:"path"`
	Name    string        `toml:"name"`
	Options ExportOptions `toml:"options"`
}

// A place is where a key was set: a line of the file, or a flag. Keys are dotted, with an index
// for elements of a list: "memory.ceiling", "export[0].path".
type place struct {
	file string // or a flag
	line int    // 0 if there is none
}

// Says reports whether the user set key, even if to zero.
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
	// Read the document first: it knows the line of each key, and the kind of value that a key
	// takes.
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
