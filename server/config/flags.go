package config

import (
	"strings"

	"github.com/spf13/pflag"
)

// Flags has the values of the command line's flags that override the file: exports, and the
// settings that have a flag. An empty flag has no effect.
type Flags struct {
	exports []string
	words   map[string]*string   // by key
	lists   map[string]*[]string // by key
}

// Define adds the flags to a command.
func (f *Flags) Define(set *pflag.FlagSet) {
	f.words, f.lists = make(map[string]*string), make(map[string]*[]string)
	set.StringArrayVar(&f.exports, "export", nil, "directory to serve: DIR[:/name][,option...]; repeatable")
	for i := range settings {
		switch s := &settings[i]; {
		case s.flag == "":
		case s.add != nil:
			f.lists[s.key] = set.StringArray(s.flagName(), nil, s.flag)
		default:
			f.words[s.key] = set.String(s.flagName(), "", s.flag)
		}
	}
}

// HaveExports reports whether the command line has exports.
func (f *Flags) HaveExports() bool { return len(f.exports) > 0 }

// Overlay applies flags over the file's configuration. If a flag names an export, all exports of
// the file are dropped. If a flag names an address for a transport, all addresses of the file for
// this transport are dropped.
func (c *Config) Overlay(f *Flags) error {
	if err := c.overlayExports(f.exports); err != nil {
		return err
	}
	for key, words := range f.lists {
		if err := c.overlayList(settingOf(key), *words); err != nil {
			return err
		}
	}
	for key, word := range f.words {
		if s := settingOf(key); *word != "" {
			s.said(c, *word)
			c.saidBy("--"+s.flagName(), key)
		}
	}
	if err := c.Check(); err != nil {
		return c.Fault(err)
	}
	return nil
}

func (c *Config) overlayExports(words []string) error {
	if len(words) == 0 {
		return nil
	}
	c.Exports = nil
	for key := range c.origin {
		if strings.HasPrefix(key, "export") {
			delete(c.origin, key)
		}
	}
	for _, s := range words {
		e, err := ParseExport(s)
		if err != nil {
			return err
		}
		c.saidBy("--export "+s, ExportKey(len(c.Exports)))
		c.Exports = append(c.Exports, e)
	}
	return nil
}

func (c *Config) overlayList(s *setting, words []string) error {
	if len(words) == 0 {
		return nil
	}
	s.reset(c)
	for _, word := range words {
		if err := s.add(c, word); err != nil {
			return &Error{File: "--" + s.flagName(), Err: err}
		}
	}
	c.saidBy("--"+s.flagName(), s.key)
	return nil
}

// saidBy notes that a flag has set a key.
func (c *Config) saidBy(flag, key string) {
	if c.origin == nil {
		c.origin = make(map[string]place)
	}
	c.origin[key] = place{file: flag}
}
