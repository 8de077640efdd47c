package config

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// A setting describes one key of the configuration: its default, its range, its flag and its
// documentation. The field of Config whose tag is the key has its value.
type setting struct {
	// key is the dotted key: "memory.ceiling".
	key string
	// usual is the default, and meaning the key's text, in the form of docs/configuration.md.
	usual, meaning string
	// check sets the default if the user has not set the key, and checks the value; it may be nil.
	check func(*Config) error
	// flag is the help text of the flag that overrides the file; empty if the key has no flag. name
	// is the flag's name, if it differs from the key.
	flag, name string
	// choices are the words that the key accepts, if it accepts no others.
	choices []string
	// reloads is true if a reload applies a change of the key (Reloads of type Described).
	reloads bool
}

// flagName returns the name of the flag.
func (s *setting) flagName() string {
	if s.name != "" {
		return s.name
	}
	return strings.ReplaceAll(s.key, "_", "-")
}

// flagged returns a copy of the setting whose flag has the given name.
func (s setting) flagged(name string) setting {
	s.name = name
	return s
}

// reloaded returns a copy of the setting for a key whose changes a reload applies.
func (s setting) reloaded() setting {
	s.reloads = true
	return s
}

// effect returns when a change of the key takes effect, for documentation.
func (s *setting) effect() string {
	if s.reloads {
		return "reload"
	}
	return "restart"
}

// quoted formats a string for documentation.
func quoted(s string) string { return "`" + strconv.Quote(s) + "`" }

// list formats strings as a TOML list, for documentation.
func list(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = strconv.Quote(w)
	}
	return "`[" + strings.Join(quoted, ", ") + "]`"
}

// within sets the key's value to the default, usual, if it is 0 and the user did not set the key.
// Otherwise it checks that the value is from least to most.
func within[T ~int | ~int64](c *Config, key string, usual, least, most T) error {
	value := c.field(key).(*T)
	switch {
	case *value == 0 && !c.Says(key):
		*value = usual
	case *value < least || *value > most:
		return c.badValue(key, *value, fmt.Sprintf("use a value from %v to %v", least, most))
	}
	return nil
}

// number returns a setting for a number with a default and a range, with which its documentation ends.
func number[T ~int | ~int64](key string, usual, least, most T, meaning string) setting {
	shown := fmt.Sprintf("`%v`", usual)
	if _, text := any(usual).(fmt.Stringer); text {
		shown = quoted(fmt.Sprint(usual))
	}
	meaning += fmt.Sprintf("; from `%v` to `%v`", least, most)
	return ranged(key, shown, func(*Config) (T, T, T) { return usual, least, most }, meaning)
}

// ranged returns a setting for a number whose default and range the function limits returns. The
// documentation shows the text usual as the default.
func ranged[T ~int | ~int64](key, usual string, limits func(*Config) (usual, least, most T), meaning string) setting {
	return setting{key: key, usual: usual, meaning: meaning, check: func(c *Config) error {
		usual, least, most := limits(c)
		return within(c, key, usual, least, most)
	}}
}

// optional returns the setting of a number that is 0 unless the user sets it.
func optional(key string, least, most int, without, meaning string) setting {
	meaning += fmt.Sprintf("; from %d to %d", least, most)
	return ranged(key, without, func(*Config) (int, int, int) { return 0, least, most }, meaning)
}

// The range of durations, for keys without a range of their own. A time limit below the shortest
// one could end healthy connections over slow networks.
const (
	shortest = Duration(100 * time.Millisecond)
	longest  = Duration(24 * time.Hour)
)

// timeout returns a setting for a duration from shortest to longest.
func timeout(key string, usual time.Duration, meaning string) setting {
	return number(key, Duration(usual), shortest, longest, meaning)
}

// text returns a setting for any string that is not empty.
func text(key, usual, flag, meaning string) setting {
	return setting{key: key, usual: quoted(usual), flag: flag, meaning: meaning, check: func(c *Config) error {
		if value := c.field(key).(*string); *value == "" {
			*value = usual
		}
		return nil
	}}
}

// choice returns a setting whose value is one of words. The first of them is the default.
func choice(key string, words []string, flag, meaning string) setting {
	return setting{key: key, usual: quoted(words[0]), flag: flag, meaning: meaning, choices: words, check: func(c *Config) error {
		value := c.field(key).(*string)
		if *value == "" && !c.Says(key) {
			*value = words[0]
		}
		if !slices.Contains(words, *value) {
			return c.badValue(key, strconv.Quote(*value), didYouMean(*value, words)+"use one of "+strings.Join(words, ", "))
		}
		return nil
	}}
}

// listening returns the setting for the addresses of a transport. The default is the given port of
// every address. If "none" is given, it must be the only element.
func listening(key string, port uint16, flag, meaning string) setting {
	usual := Listen{Addr: netip.AddrPortFrom(netip.IPv6Unspecified(), port), All: true}
	return setting{key: key, usual: list(usual.String()), flag: flag, meaning: meaning, check: func(c *Config) error {
		all := c.field(key).(*[]Listen)
		if len(*all) == 0 {
			*all = []Listen{usual}
		}
		if len(*all) > 1 && slices.ContainsFunc(*all, func(l Listen) bool { return l.None }) {
			var words []string
			for _, l := range *all {
				words = append(words, strconv.Quote(l.String()))
			}
			return c.badValue(key, strings.Join(words, " and "), `use either "none" or addresses`)
		}
		return nil
	}}
}

// Flags are the command line's flags that override the file: exports, and the settings that have a
// flag.
type Flags struct {
	exports []string
	// etcExports are files in the form of /etc/exports.
	etcExports []string
	set        *pflag.FlagSet
}

// Define adds the flags to a command. The flag of a list may be repeated.
func (f *Flags) Define(set *pflag.FlagSet) {
	f.set = set
	set.StringArrayVar(&f.exports, "export", nil, "directory to serve: DIR[:/name][,option...]; repeatable")
	set.StringArrayVar(&f.etcExports, "exports", nil, "file in the form of /etc/exports with directories to serve; repeatable")
	for i := range settings {
		s := &settings[i]
		if s.flag == "" {
			continue
		}
		switch new(Config).field(s.key).(type) {
		case *[]Listen, *[]int:
			set.StringArray(s.flagName(), nil, s.flag)
		default:
			set.String(s.flagName(), "", s.flag)
		}
	}
}

// HaveExports reports whether the command line has exports.
func (f *Flags) HaveExports() bool { return len(f.exports)+len(f.etcExports) > 0 }

// overlay applies flags over the file's configuration. If a flag names an export, all exports of
// the file are dropped. If a flag names an address for a transport, all addresses of the file for
// this transport are dropped.
func (c *Config) overlay(f *Flags) (faults []error) {
	if f.HaveExports() {
		c.Exports = nil
		maps.DeleteFunc(c.origin, func(key string, _ Error) bool { return strings.HasPrefix(key, "export") })
	}
	for _, word := range f.exports {
		e, err := ParseExport(word)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		c.origin[ExportKey(len(c.Exports))] = Error{File: exportFlag(word)}
		c.Exports = append(c.Exports, e)
	}
	for _, file := range f.etcExports {
		faults = append(faults, c.readEtcExports(file)...)
	}
	for i := range settings {
		s := &settings[i]
		if s.flag == "" || !f.set.Changed(s.flagName()) {
			continue
		}
		words, err := f.set.GetStringArray(s.flagName())
		if err != nil { // the flag is not a list
			words = []string{f.set.Lookup(s.flagName()).Value.String()}
		}
		flag := "--" + s.flagName()
		if len(words) == 0 || slices.Contains(words, "") { // pflag takes --tcp= for an empty list
			err = errors.New("the value is empty: give one, or leave the flag out")
		} else {
			err = assign(c.field(s.key), words)
		}
		if err != nil {
			faults = append(faults, &Error{File: flag, Err: err})
			continue
		}
		c.origin[s.key] = Error{File: flag}
	}
	return faults
}
