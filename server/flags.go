package server

import "strings"

// Flags are what the command line says beside the file. What is empty says
// nothing.
type Flags struct {
	Exports            []string // --export, as ParseExport reads it
	RDMA, TCP          []string // --rdma and --tcp, as Listen reads them
	StateDir, LogLevel string   // --state-dir, --log-level
}

// Overlay puts flags over what the file says: exports replace all of the file's,
// addresses all of their kind.
func (c *Config) Overlay(f Flags) error {
	if len(f.Exports) > 0 {
		c.Exports = nil
		for key := range c.origin {
			if strings.HasPrefix(key, "export") {
				delete(c.origin, key)
			}
		}
	}
	for _, s := range f.Exports {
		e, err := ParseExport(s)
		if err != nil {
			return err
		}
		c.saidBy("--export "+s, exportKey(len(c.Exports)))
		c.Exports = append(c.Exports, e)
	}
	if err := c.overlayListen("rdma", f.RDMA, &c.RDMA); err != nil {
		return err
	}
	if err := c.overlayListen("tcp", f.TCP, &c.TCP); err != nil {
		return err
	}
	if f.StateDir != "" {
		c.StateDir = f.StateDir
		c.saidBy("--state-dir", "state_dir")
	}
	if f.LogLevel != "" {
		c.LogLevel = Choice(f.LogLevel)
		c.saidBy("--log-level", "log_level")
	}
	if err := c.check(); err != nil {
		return c.fault(err)
	}
	return nil
}

func (c *Config) overlayListen(key string, from []string, to *[]Listen) error {
	if len(from) == 0 {
		return nil
	}
	*to = nil
	for _, s := range from {
		var l Listen
		if err := l.UnmarshalText([]byte(s)); err != nil {
			return &ConfigError{File: "--" + key, Err: err}
		}
		*to = append(*to, l)
	}
	c.saidBy("--"+key, key)
	return nil
}

// saidBy notes that a flag set a key.
func (c *Config) saidBy(flag, key string) {
	if c.origin == nil {
		c.origin = make(map[string]place)
	}
	c.origin[key] = place{file: flag}
}
