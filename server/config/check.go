package config

import (
	"errors"
	"fmt"
	"net/netip"
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

// checkExports checks the paths and names of the exports.
func (c *Config) checkExports() error {
	seen := make(map[string]bool)
	for i := range c.Exports {
		e := &c.Exports[i]
		if e.Path.Path == "" {
			return c.At(errors.New("this [[export]] has no path: add path = \"/the/directory\""), ExportKey(i))
		}
		name, err := e.ExportName()
		if err != nil {
			return c.At(err, ExportKey(i))
		}
		if seen[name] {
			return c.At(fmt.Errorf("two exports have the name %q: give one of them another, by the key name, or as --export DIR:/name", name), ExportKey(i))
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
		return c.At(errors.New(`nothing to listen on: rdma and tcp are both "none"; give one of them an address such as ":2049"`), "tcp", "rdma")
	}
	for i, a := range all {
		for _, b := range all[:i] {
			switch {
			case !a.collides(b.Listen):
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

// collides reports whether the server cannot listen on both addresses. The unspecified IPv6 address
// [::] also covers all IPv4 addresses.
func (l Listen) collides(with Listen) bool {
	a, b := l.Addr.Addr().Unmap(), with.Addr.Addr().Unmap()
	covers := func(a, b netip.Addr) bool { return a == b || a.IsUnspecified() && (a.Is6() || b.Is4()) }
	return l.Addr.Port() != 0 && l.Addr.Port() == with.Addr.Port() && (covers(a, b) || covers(b, a))
}
