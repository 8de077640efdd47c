package server

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

// A Config is all that a daemon is told. The TOML keys are the file's.
type Config struct {
	// RDMA and TCP are the addresses to listen on. A host left out means
	// every address. None at all means the default port on every address;
	// "none" means not to listen.
	RDMA []Listen `toml:"rdma"`
	TCP  []Listen `toml:"tcp"`
	// StateDir keeps what outlives the process: the handles' key and indexes.
	StateDir string `toml:"state_dir"`
	// LogLevel is debug, info, warn or error; LogFormat text or json.
	LogLevel  Choice `toml:"log_level"`
	LogFormat Choice `toml:"log_format"`
	// Metrics is the address of the Prometheus endpoint; empty for none.
	Metrics string `toml:"metrics"`
	// Rpcbind registers NFS and MOUNT with rpcbind where it runs.
	Rpcbind *bool `toml:"rpcbind"`
	// DrainTimeout bounds how long SIGTERM waits for calls in progress.
	DrainTimeout Duration `toml:"drain_timeout"`

	// BusyPoll is how long a connection's goroutine looks for the next call at most
	// before it sleeps; 0 for not at all.
	BusyPoll Duration `toml:"busy_poll"`

	Memory   MemoryConfig   `toml:"memory"`
	RNIC     RNICConfig     `toml:"rnic"`
	Limits   LimitsConfig   `toml:"limits"`
	NFS      NFSConfig      `toml:"nfs"`
	Kerberos KerberosConfig `toml:"kerberos"`
	Exports  []ExportConfig `toml:"export"`

	file   string           // that it was read from
	origin map[string]place // of the keys that were set, see place
}

// MemoryConfig bounds payload memory.
type MemoryConfig struct {
	// Ceiling is for all connections together, Connection for one of them.
	Ceiling    Size `toml:"ceiling"`
	Connection Size `toml:"connection"`
	// State is for what clients of NFSv4 hold, beside payload memory.
	State Size `toml:"state"`
	// Replies is for the duplicate-request cache.
	Replies Size `toml:"replies"`
}

// RNICConfig is about RDMA connections.
type RNICConfig struct {
	// Provider is what carries them: auto, verbs or iwarp.
	Provider Choice `toml:"provider"`
	// CRC is on, off or peer: whether the software RNIC asks for CRC32C, or
	// leaves it to the peer (RFC 5044 §4.4; Linux's siw does not ask).
	CRC Choice `toml:"crc"`
	// FPDU is auto, mss, or the largest FPDU in bytes.
	FPDU string `toml:"fpdu"`
	// Credits granted to each connection, and the inline threshold.
	Credits int  `toml:"credits"`
	Inline  Size `toml:"inline"`
}

// LimitsConfig bounds peers.
type LimitsConfig struct {
	// Connections is how many connections there may be over both transports, 0
	// for what the limit of open files allows; PerClient how many of one client
	// address, 0 for half of them.
	Connections int `toml:"connections"`
	PerClient   int `toml:"connections_per_client"`
	// SetupTimeout is for the set-up of a connection, and for what comes first
	// over it; FirstCallTimeout for a first call that makes its client known.
	SetupTimeout     Duration `toml:"setup_timeout"`
	FirstCallTimeout Duration `toml:"first_call_timeout"`
	// CallsInFlight is how many calls of one TCP connection are worked on at a
	// time.
	CallsInFlight int `toml:"calls_in_flight"`
	// StallTimeout is for a peer that stops in the middle of something,
	// IdleTimeout for a TCP connection without calls; without one (0) such a
	// connection stays.
	StallTimeout Duration `toml:"stall_timeout"`
	IdleTimeout  Duration `toml:"idle_timeout"`
}

// An ExportConfig is one [[export]] of the file or one --export flag.
type ExportConfig struct {
	Path    Dir           `toml:"path"`
	Name    string        `toml:"name"`
	Options ExportOptions `toml:"options"`
}

// A place is where a key was set: a line of the file, or a flag. Keys are dotted,
// and elements of a list have an index: "memory.ceiling", "export[0].path".
type place struct {
	file string // or the flag
	line int    // 0 where there is none
}

// says: the user set key, even if to zero.
func (c *Config) says(key string) bool {
	_, said := c.origin[key]
	return said
}

// ReadConfig reads a TOML file. Unknown keys are errors. What the file does not
// say has its default.
func ReadConfig(file string) (*Config, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, &ConfigError{File: file, Err: fmt.Errorf("cannot read the configuration: %w; name another with --config", cause(err))}
	}
	return parseConfig(file, b)
}

func parseConfig(file string, b []byte) (*Config, error) {
	c := &Config{file: file}
	var err error
	// The document first: it knows each key's line, and which values a key takes.
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
		return nil, &ConfigError{file, row, errors.New(text)}
	case err != nil:
		return nil, &ConfigError{file, 0, err}
	}
	if err := c.check(); err != nil {
		return nil, c.fault(err)
	}
	return c, nil
}
