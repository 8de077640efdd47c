package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A setting describes one key of the configuration: its default, its range, its flag and its
// documentation. The field of Config whose tag is the key has its value.
type setting struct {
	// key is the dotted key: "memory.ceiling".
	key string
	// usual is the default, in the form of docs/configuration.md.
	usual string
	// meaning is the key's text in docs/configuration.md.
	meaning string
	// check sets the default if the user has not set the key, and checks the value; it may be nil.
	check func(*Config) error
	// flag is the help text of the flag that overrides the file; empty if the key has no flag. name
	// is the flag's name, if it differs from the key. set replaces the value by that of the flag, or,
	// if the flag is repeatable, by its values.
	flag, name string
	repeatable bool
	set        func(c *Config, words []string) error
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

// The method "and" returns the setting with a second check, which runs after the first.
func (s setting) and(more func(*Config) error) setting {
	first := s.check
	s.check = func(c *Config) error {
		if err := first(c); err != nil {
			return err
		}
		return more(c)
	}
	return s
}

// quoted formats a string for documentation.
func quoted(s string) string { return "`" + strconv.Quote(s) + "`" }

// shownDefault formats a number, size or duration for documentation.
func shownDefault(v any) string {
	if text, ok := v.(fmt.Stringer); ok {
		return quoted(text.String())
	}
	return fmt.Sprintf("`%v`", v)
}

// number returns a setting for a number with a default and a range.
func number[T ~int | ~int64](key string, at func(*Config) *T, usual, least, most T, meaning string) setting {
	return setting{key: key, usual: shownDefault(usual), meaning: meaning,
		check: func(c *Config) error { return within(c, key, at(c), usual, least, most) }}
}

// optional returns the setting of a number that has no default. If the user sets the number, it
// must lie between least and most. The documentation shows the text of the parameter without in
// place of a default.
func optional[T ~int | ~int64](key string, at func(*Config) *T, least, most T, without, meaning string) setting {
	return setting{key: key, usual: without, meaning: meaning,
		check: func(c *Config) error {
			if *at(c) == 0 && !c.Says(key) {
				return nil
			}
			return within(c, key, at(c), 0, least, most)
		}}
}

// The range of durations, for keys without a range of their own. A time limit below the shortest
// one could end healthy connections over slow networks.
const (
	shortest = Duration(100 * time.Millisecond)
	longest  = Duration(24 * time.Hour)
)

// timeout returns a setting for a duration from shortest to longest.
func timeout(key string, at func(*Config) *Duration, usual time.Duration, meaning string) setting {
	return number(key, at, Duration(usual), shortest, longest, meaning)
}

// choice returns a setting whose value is one of words. The first of them is the default.
func choice(key string, at func(*Config) *Choice, words []string, flag, meaning string) setting {
	return setting{key: key, usual: quoted(words[0]), flag: flag, meaning: meaning,
		set: func(c *Config, words []string) error {
			*at(c) = Choice(words[0])
			return nil
		},
		check: func(c *Config) error {
			value := at(c)
			if *value == "" && !c.Says(key) {
				*value = Choice(words[0])
			}
			if !slices.Contains(words, string(*value)) {
				return badValue(key, strconv.Quote(string(*value)), "use one of "+strings.Join(words, ", "))
			}
			return nil
		}}
}

// listening returns the setting for the addresses of a transport. The default is the given port of
// every address. If "none" is given, it must be the only element.
func listening(key string, at func(*Config) *[]Listen, port uint16, flag, meaning string) setting {
	usual := Listen{Addr: netip.AddrPortFrom(netip.IPv6Unspecified(), port), All: true}
	return setting{key: key, usual: "`[" + strconv.Quote(usual.String()) + "]`", flag: flag, meaning: meaning, repeatable: true,
		set: func(c *Config, words []string) error {
			*at(c) = make([]Listen, len(words))
			for i, word := range words {
				if err := (*at(c))[i].UnmarshalText([]byte(word)); err != nil {
					return err
				}
			}
			return nil
		},
		check: func(c *Config) error {
			all := at(c)
			if len(*all) == 0 {
				*all = []Listen{usual}
			}
			if len(*all) > 1 && slices.ContainsFunc(*all, func(l Listen) bool { return l.None }) {
				var words []string
				for _, l := range *all {
					words = append(words, strconv.Quote(l.String()))
				}
				return badValue(key, strings.Join(words, " and "), `use either "none" or addresses`)
			}
			return nil
		}}
}
