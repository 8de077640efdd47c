package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// Check sets defaults and checks all values.
func (c *Config) Check() error {
	for i := range settings {
		if check := settings[i].check; check != nil {
			if err := check(c); err != nil {
				return err
			}
		}
	}
	return c.checkExports()
}

// within sets *value to the default, usual, if it is 0 and the user did not set the key. It then
// checks that *value is from least to most.
func within[T ~int | ~int64](c *Config, key string, value *T, usual, least, most T) error {
	if *value == 0 && !c.Says(key) {
		*value = usual
	}
	if *value < least || *value > most {
		return badValue(key, *value, fmt.Sprintf("use a value from %v to %v", least, most))
	}
	return nil
}

// checkFPDU sets the default of rnic.fpdu, and rejects values that iwarp.ParseFPDUSize will
// reject.
func checkFPDU(c *Config) error {
	f := &c.RNIC.FPDU
	switch *f {
	case "":
		*f = "auto"
	case "auto", "mss":
	default:
		if n, err := strconv.Atoi(*f); err != nil || n < 128 || n > 64768 {
			return badValue("rnic.fpdu", strconv.Quote(*f), "use auto, mss, or a number of bytes from 128 to 64768")
		}
	}
	return nil
}

func checkInline(c *Config) error {
	if z := c.RNIC.Inline; z%1024 != 0 {
		return badValue("rnic.inline", z, "use a multiple of 1K")
	}
	return nil
}

func checkMetrics(c *Config) error {
	if c.Metrics == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(c.Metrics)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return badValue("metrics", strconv.Quote(c.Metrics), "use HOST:PORT such as 127.0.0.1:9427")
	}
	return nil
}

// checkExports checks the paths and names of the exports.
func (c *Config) checkExports() error {
	seen := make(map[string]bool)
	for i := range c.Exports {
		e := &c.Exports[i]
		if e.Path.Path == "" {
			return &KeyError{ExportKey(i), errors.New("this [[export]] has no path: add path = \"/the/directory\"")}
		}
		name, err := e.ExportName()
		if err != nil {
			return &KeyError{ExportKey(i), err}
		}
		if seen[name] {
			return &KeyError{ExportKey(i), fmt.Errorf("two exports have the name %q: give one of them another, by the key name, or as --export DIR:/name", name)}
		}
		seen[name] = true
	}
	return nil
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
		return &KeyError{c.firstSaid("tcp", "rdma"), errors.New(`nothing to listen on: rdma and tcp are both "none"; give one of them an address such as ":2049"`)}
	}
	for i, a := range all {
		for _, b := range all[:i] {
			switch {
			case !a.collides(b.Listen):
			case a.key == b.key:
				return badValue(a.key, fmt.Sprintf("%q and %q", b, a), "these are one port of one address: leave one of them out")
			default:
				return &KeyError{c.firstSaid(a.key, b.key), fmt.Errorf("%s = %q and %s = %q are one port: RDMA is carried in TCP here; give it a port of its own, such as %d", b.key, b, a.key, a, DefaultRDMAPort)}
			}
		}
	}
	return nil
}

// firstSaid returns the first of keys that the user set, or keys[0] if the user set none.
func (c *Config) firstSaid(keys ...string) string {
	for _, key := range keys {
		if c.Says(key) {
			return key
		}
	}
	return keys[0]
}

// collides reports whether the server cannot listen on both addresses. The unspecified IPv6 address
// [::] also covers all IPv4 addresses.
func (l Listen) collides(with Listen) bool {
	a, b := l.Addr.Addr().Unmap(), with.Addr.Addr().Unmap()
	covers := func(a, b netip.Addr) bool { return a == b || a.IsUnspecified() && (a.Is6() || b.Is4()) }
	return l.Addr.Port() != 0 && l.Addr.Port() == with.Addr.Port() && (covers(a, b) || covers(b, a))
}
