package config

import (
	"strings"

	"github.com/spf13/pflag"
)

// Flags has the values of the command line's flags that override the file: exports, and the
// settings that have a flag. An empty flag has no effect.
type Flags struct {
	exports []string
	words   map[*setting]func() []string // the flag's values
}

// Define adds the flags to a command.
func (f *Flags) Define(set *pflag.FlagSet) {
	f.words = make(map[*setting]func() []string)
	set.StringArrayVar(&f.exports, "export", nil, "directory to serve: DIR[:/name][,option...]; repeatable")
	for i := range settings {
		switch s := &settings[i]; {
		case s.flag == "":
		case s.repeatable:
			words := set.StringArray(s.flagName(), nil, s.flag)
			f.words[s] = func() []string { return *words }
		default:
			word := set.String(s.flagName(), "", s.flag)
			f.words[s] = func() []string {
				if *word == "" {
					return nil
				}
				return []string{*word}
			}
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
	for s, words := range f.words {
		given := words()
		if len(given) == 0 {
			continue
		}
		if err := s.set(c, given); err != nil {
			return &Error{File: "--" + s.flagName(), Err: err}
		}
		c.saidBy("--"+s.flagName(), s.key)
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

// saidBy notes that a flag has set a key.
func (c *Config) saidBy(flag, key string) {
	if c.origin == nil {
		c.origin = make(map[string]place)
	}
	c.origin[key] = place{file: flag}
}
