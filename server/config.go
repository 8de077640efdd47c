package server

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

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

	Memory  MemoryConfig   `toml:"memory"`
	RNIC    RNICConfig     `toml:"rnic"`
	Limits  LimitsConfig   `toml:"limits"`
	Exports []ExportConfig `toml:"export"`

	file string // that it was read from
}

// MemoryConfig bounds payload memory.
type MemoryConfig struct {
	// Ceiling is for all connections together, Connection for one of them.
	Ceiling    Size `toml:"ceiling"`
	Connection Size `toml:"connection"`
}

// RNICConfig is about RDMA connections.
type RNICConfig struct {
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
	// Connections is how many TCP connections there may be, CallsInFlight
	// how many calls of one of them are worked on at a time.
	Connections   int `toml:"connections"`
	CallsInFlight int `toml:"calls_in_flight"`
	// StallTimeout is for a peer that stops in the middle of something,
	// IdleTimeout for a TCP connection without calls; 0 means for ever.
	StallTimeout Duration `toml:"stall_timeout"`
	IdleTimeout  Duration `toml:"idle_timeout"`
}

// An ExportConfig is one [[export]] of the file or one --export flag.
type ExportConfig struct {
	Path    Dir           `toml:"path"`
	Name    string        `toml:"name"`
	Options ExportOptions `toml:"options"`
}

// Listen is an address to listen on: HOST:PORT, :PORT, or "none".
type Listen struct {
	Addr netip.AddrPort
	// All: every address, of both families.
	All, None bool
}

// UnmarshalText parses HOST:PORT.
func (l *Listen) UnmarshalText(b []byte) error {
	s := string(b)
	if s == "none" {
		*l = Listen{None: true}
		return nil
	}
	if port, ok := strings.CutPrefix(s, ":"); ok {
		s = "[::]:" + port
		l.All = true
	}
	a, err := netip.ParseAddrPort(s)
	if err != nil {
		return fmt.Errorf("%q is not an address to listen on: write IP:PORT such as 192.0.2.1:20049, [2001:db8::1]:20049, or :20049 for every address", b)
	}
	l.Addr = a
	return nil
}

// String is what UnmarshalText reads.
func (l Listen) String() string {
	switch {
	case l.None:
		return "none"
	case l.All:
		return ":" + strconv.Itoa(int(l.Addr.Port()))
	}
	return l.Addr.String()
}

// Size is a number of bytes: 4096, 64K, 256M, 2G, with or without "iB".
type Size int64

// UnmarshalText parses a size.
func (z *Size) UnmarshalText(b []byte) error {
	s := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSpace(string(b)), "iB"), "B")
	shift := 0
	if n := len(s); n > 0 {
		if i := strings.IndexByte("KMGT", s[n-1]&^0x20); i >= 0 {
			shift, s = 10*(i+1), strings.TrimSpace(s[:n-1])
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > (1<<62)>>shift {
		return fmt.Errorf("%q is not a size: write bytes, or a number with K, M, G such as 256M", b)
	}
	*z = Size(n << shift)
	return nil
}

// Duration is a time.Duration as Go writes it: 30s, 5m.
type Duration time.Duration

// UnmarshalText parses a duration.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil || v < 0 {
		return fmt.Errorf("%q is not a duration: write a number with a unit such as 30s or 5m", b)
	}
	*d = Duration(v)
	return nil
}

// Choice is one of a few words; which ones is checked by Config.check.
type Choice string

// logLevels are the values of Config.LogLevel; the first is the default.
var logLevels = []string{"info", "debug", "warn", "error"}

// ParseLogLevel checks a value of the --log-level flag.
func ParseLogLevel(s string) (Choice, error) {
	if !contains(logLevels, s) {
		return "", &ConfigError{File: "--log-level", Err: fmt.Errorf("%q: use one of %s", s, strings.Join(logLevels, ", "))}
	}
	return Choice(s), nil
}

// Dir is a directory that exists, as an absolute path. (A struct, because a
// TOML decoder asks no string type for UnmarshalText.)
type Dir struct{ Path string }

// UnmarshalText makes the path absolute and looks whether it is a directory.
func (d *Dir) UnmarshalText(b []byte) error {
	p, err := absDir(string(b))
	if err != nil {
		return err
	}
	d.Path = p
	return nil
}

// A ConfigError says where a configuration is wrong and what to do about it, in
// one line.
type ConfigError struct {
	File string // or the flag
	Line int    // 0 where there is none
	Err  error
}

func (e *ConfigError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err)
	}
	return fmt.Sprintf("%s: %v", e.File, e.Err)
}

func (e *ConfigError) Unwrap() error { return e.Err }

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
	err := toml.NewDecoder(bytes.NewReader(b)).DisallowUnknownFields().Decode(c)
	var strict *toml.StrictMissingError
	var decode *toml.DecodeError
	switch {
	case errors.As(err, &strict):
		row, _ := strict.Errors[0].Position()
		key := strings.Join(strict.Errors[0].Key(), ".")
		return nil, &ConfigError{file, row, fmt.Errorf("unknown key %q: %s", key, keyHint(key))}
	case errors.As(err, &decode):
		row, _ := decode.Position()
		return nil, &ConfigError{file, row, errors.New(strings.TrimPrefix(decode.Error(), "toml: "))}
	case err != nil:
		return nil, &ConfigError{file, 0, err}
	}
	if err := c.check(); err != nil {
		var choice *choiceError
		var export *exportError
		line := 0
		switch {
		case errors.As(err, &choice):
			line = lineOfKey(b, choice.key)
		case errors.As(err, &export):
			line = lineOfExport(b, export.index)
		}
		return nil, &ConfigError{file, line, err}
	}
	return c, nil
}

// keyHint proposes what an unknown key may have been meant to be.
func keyHint(key string) string {
	last := key[strings.LastIndexByte(key, '.')+1:]
	for _, k := range knownKeys() {
		if strings.EqualFold(k, last) || strings.ReplaceAll(k, "_", "") == strings.ReplaceAll(strings.ReplaceAll(last, "-", ""), "_", "") {
			return fmt.Sprintf("did you mean %q? Otherwise remove it", k)
		}
	}
	return "remove it, or see nfsrdmad.toml(5) in docs/configuration.md for the keys there are"
}

// lineOfKey finds the first line that sets key, or 0.
func lineOfKey(b []byte, key string) int {
	for i, line := range strings.Split(string(b), "\n") {
		name, _, ok := strings.Cut(line, "=")
		if ok && strings.TrimSpace(name) == key {
			return i + 1
		}
	}
	return 0
}

// lineOfExport finds the index-th [[export]], or 0.
func lineOfExport(b []byte, index int) int {
	for i, line := range strings.Split(string(b), "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "[[export]]") {
			if index == 0 {
				return i + 1
			}
			index--
		}
	}
	return 0
}

// An exportError is about one of Config.Exports.
type exportError struct {
	index int
	err   error
}

func (e *exportError) Error() string { return e.err.Error() }
func (e *exportError) Unwrap() error { return e.err }

type choiceError struct {
	key, value string
	want       []string
}

func (e *choiceError) Error() string {
	if len(e.want) == 1 {
		return fmt.Sprintf("%s = %q: use %s", e.key, e.value, e.want[0])
	}
	return fmt.Sprintf("%s = %q: use one of %s", e.key, e.value, strings.Join(e.want, ", "))
}

// check fills in defaults and looks at what single values cannot tell.
func (c *Config) check() error {
	for _, ch := range []struct {
		key   string
		value *Choice
		want  []string // the first is the default
	}{
		{"log_level", &c.LogLevel, logLevels},
		{"log_format", &c.LogFormat, []string{"text", "json"}},
		{"crc", &c.RNIC.CRC, []string{"peer", "on", "off"}},
	} {
		if *ch.value == "" {
			*ch.value = Choice(ch.want[0])
		}
		if !contains(ch.want, string(*ch.value)) {
			return &choiceError{ch.key, string(*ch.value), ch.want}
		}
	}
	if f := c.RNIC.FPDU; f != "" && f != "auto" && f != "mss" {
		if n, err := strconv.Atoi(f); err != nil || n < 128 || n > 64768 {
			return &choiceError{"fpdu", f, []string{"auto", "mss", "a number of bytes from 128 to 64768"}}
		}
	}
	if c.StateDir == "" {
		c.StateDir = DefaultStateDir
	}
	setDefault(&c.Memory.Ceiling, 256<<20)
	setDefault(&c.Memory.Connection, c.Memory.Ceiling/2)
	setDefault(&c.RNIC.Credits, 128)
	setDefault(&c.RNIC.Inline, 4096)
	setDefault(&c.RNIC.FPDU, "auto")
	setDefault(&c.Limits.Connections, 16384)
	setDefault(&c.Limits.CallsInFlight, 128)
	setDefault(&c.Limits.StallTimeout, Duration(30*time.Second))
	setDefault(&c.DrainTimeout, Duration(30*time.Second))
	if len(c.RDMA) == 0 {
		c.RDMA = []Listen{everyAddress(DefaultRDMAPort)}
	}
	if len(c.TCP) == 0 {
		c.TCP = []Listen{everyAddress(DefaultTCPPort)}
	}
	for _, b := range []struct {
		key         string
		value       int64
		least, most int64
	}{
		{"ceiling", int64(c.Memory.Ceiling), 16 << 20, 1 << 40},
		{"connection", int64(c.Memory.Connection), 4 << 20, int64(c.Memory.Ceiling)},
		{"credits", int64(c.RNIC.Credits), 1, 4096},
		{"inline", int64(c.RNIC.Inline), 1024, 256 << 10},
		{"connections", int64(c.Limits.Connections), 1, 1 << 20},
		{"calls_in_flight", int64(c.Limits.CallsInFlight), 1, 1 << 16},
	} {
		if b.value < b.least || b.value > b.most {
			return &choiceError{b.key, strconv.FormatInt(b.value, 10), []string{fmt.Sprintf("a value from %d to %d", b.least, b.most)}}
		}
	}
	if c.RNIC.Inline%1024 != 0 {
		return &choiceError{"inline", strconv.FormatInt(int64(c.RNIC.Inline), 10), []string{"a multiple of 1K"}}
	}
	if c.Metrics != "" && !isHostPort(c.Metrics) {
		return &choiceError{"metrics", c.Metrics, []string{"HOST:PORT such as 127.0.0.1:9427"}}
	}
	return c.checkExports()
}

// checkExports looks at what exports are called.
func (c *Config) checkExports() error {
	seen := make(map[string]bool)
	for i := range c.Exports {
		e := &c.Exports[i]
		if e.Path.Path == "" {
			return &exportError{i, errors.New("this [[export]] has no path: add path = \"/the/directory\"")}
		}
		name, err := e.exportName()
		if err != nil {
			return &exportError{i, err}
		}
		if seen[name] {
			return &exportError{i, fmt.Errorf("two exports have the name %q: give one of them another, by the key name, or as --export DIR:/name", name)}
		}
		seen[name] = true
	}
	return nil
}

func isHostPort(s string) bool {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// fault makes an error of what the user said a ConfigError, where it is none.
func (c *Config) fault(err error) error {
	var export *exportError
	where := c.file
	if where == "" {
		where = "configuration"
		if errors.As(err, &export) {
			where = "--export"
		}
	}
	return &ConfigError{File: where, Err: err}
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

func contains(all []string, s string) bool {
	for _, a := range all {
		if a == s {
			return true
		}
	}
	return false
}

func everyAddress(port uint16) Listen {
	return Listen{Addr: netip.AddrPortFrom(netip.IPv6Unspecified(), port), All: true}
}

// cause is the innermost error: what the kernel said, without the path that the
// message names already.
func cause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
