package server

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
)

// logLevels are the values of Config.LogLevel; the first is the default.
var logLevels = []string{"info", "debug", "warn", "error"}

// A checker gives keys their defaults and looks at their values. It keeps the
// first fault.
type checker struct {
	c   *Config
	err error
}

// check fills in defaults and looks at what single values cannot tell.
func (c *Config) check() error {
	k := &checker{c: c}
	k.choice("log_level", &c.LogLevel, logLevels...)
	k.choice("log_format", &c.LogFormat, "text", "json")
	k.choice("rnic.crc", &c.RNIC.CRC, "peer", "on", "off")
	k.fpdu()
	if c.StateDir == "" {
		c.StateDir = DefaultStateDir
	}
	// Each with its default, and the least and the most that it may be.
	within(k, "memory.ceiling", &c.Memory.Ceiling, 256<<20, 16<<20, 1<<40)
	within(k, "memory.connection", &c.Memory.Connection, c.Memory.Ceiling/2, 4<<20, c.Memory.Ceiling)
	within(k, "rnic.credits", &c.RNIC.Credits, 128, 1, 4096)
	within(k, "rnic.inline", &c.RNIC.Inline, 4<<10, 1<<10, 256<<10)
	for key, value := range map[string]*int{"limits.connections": &c.Limits.Connections, "limits.connections_per_client": &c.Limits.PerClient} {
		if *value != 0 || c.says(key) {
			within(k, key, value, 0, 1, 1<<20)
		}
	}
	within(k, "limits.setup_timeout", &c.Limits.SetupTimeout, Duration(census.DefaultSetupTimeout), shortest, longest)
	within(k, "limits.first_call_timeout", &c.Limits.FirstCallTimeout, Duration(census.DefaultCallTimeout), shortest, longest)
	within(k, "limits.calls_in_flight", &c.Limits.CallsInFlight, 128, 1, 1<<16)
	within(k, "limits.stall_timeout", &c.Limits.StallTimeout, seconds(30), shortest, longest)
	within(k, "drain_timeout", &c.DrainTimeout, seconds(30), shortest, longest)
	if c.Limits.IdleTimeout != 0 {
		within(k, "limits.idle_timeout", &c.Limits.IdleTimeout, 0, shortest, longest)
	}
	if c.RNIC.Inline%1024 != 0 {
		k.fault("rnic.inline", c.RNIC.Inline, "use a multiple of 1K")
	}
	if c.Metrics != "" && !isHostPort(c.Metrics) {
		k.fault("metrics", strconv.Quote(c.Metrics), "use HOST:PORT such as 127.0.0.1:9427")
	}
	k.listen("rdma", &c.RDMA, DefaultRDMAPort)
	k.listen("tcp", &c.TCP, DefaultTCPPort)
	if k.err == nil {
		k.err = c.checkExports()
	}
	return k.err
}

// Durations that a key may have. Below the shortest no network answers in time.
const (
	shortest = Duration(100 * time.Millisecond)
	longest  = Duration(24 * time.Hour)
)

func seconds(n int) Duration { return Duration(time.Duration(n) * time.Second) }

func (k *checker) fault(key string, found any, remedy string) {
	if k.err == nil {
		k.err = badValue(key, found, remedy)
	}
}

// choice is one of a few words; the first is the default.
func (k *checker) choice(key string, value *Choice, words ...string) {
	if *value == "" && !k.c.says(key) {
		*value = Choice(words[0])
	}
	if !slices.Contains(words, string(*value)) {
		k.fault(key, strconv.Quote(string(*value)), "use one of "+strings.Join(words, ", "))
	}
}

// within is a number with its default, where the user says none, and its range.
func within[T ~int | ~int64](k *checker, key string, value *T, usual, least, most T) {
	if *value == 0 && !k.c.says(key) {
		*value = usual
	}
	if *value < least || *value > most {
		k.fault(key, *value, fmt.Sprintf("use a value from %v to %v", least, most))
	}
}

// fpdu is a word or a number, as iwarp.ParseFPDUSize reads it.
func (k *checker) fpdu() {
	f := &k.c.RNIC.FPDU
	switch *f {
	case "":
		*f = "auto"
	case "auto", "mss":
	default:
		if n, err := strconv.Atoi(*f); err != nil || n < 128 || n > 64768 {
			k.fault("rnic.fpdu", strconv.Quote(*f), "use auto, mss, or a number of bytes from 128 to 64768")
		}
	}
}

// listen is where one transport listens. "none" stands alone.
func (k *checker) listen(key string, all *[]Listen, port uint16) {
	if len(*all) == 0 {
		*all = []Listen{everyAddress(port)}
	}
	if len(*all) > 1 && slices.ContainsFunc(*all, func(l Listen) bool { return l.None }) {
		k.fault(key, strings.Join(listed(*all), " and "), `use either "none" or addresses`)
	}
}

func listed(all []Listen) []string {
	words := make([]string, len(all))
	for i, l := range all {
		words[i] = strconv.Quote(l.String())
	}
	return words
}

// checkExports looks at what exports are called.
func (c *Config) checkExports() error {
	seen := make(map[string]bool)
	for i := range c.Exports {
		e := &c.Exports[i]
		if e.Path.Path == "" {
			return &keyError{exportKey(i), errors.New("this [[export]] has no path: add path = \"/the/directory\"")}
		}
		name, err := e.exportName()
		if err != nil {
			return &keyError{exportKey(i), err}
		}
		if seen[name] {
			return &keyError{exportKey(i), fmt.Errorf("two exports have the name %q: give one of them another, by the key name, or as --export DIR:/name", name)}
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

func everyAddress(port uint16) Listen {
	return Listen{Addr: netip.AddrPortFrom(netip.IPv6Unspecified(), port), All: true}
}
