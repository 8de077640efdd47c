package server

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A setting is an entry of the registry: a key of the configuration, and all that is
// said of it, but for the field of Config that keeps it (which has the key as its tag)
// and what the rooms make of it.
type setting struct {
	// key is dotted: "memory.ceiling".
	key string
	// usual is the default, as documentation shows it.
	usual string
	// meaning is the text of docs/configuration.md.
	meaning string
	// check gives the key its default and looks at its value; nil where nothing is to
	// be done.
	check func(*checker)
	// flag is the help text of the flag that stands above the file; empty where there
	// is none. said or add takes what the flag says: said once, add each of several
	// words, after reset.
	flag  string
	name  string // of the flag, where it is not the key's
	said  func(c *Config, word string)
	reset func(c *Config)
	add   func(c *Config, word string) error
}

// flagName is the key as a flag has it.
func (s *setting) flagName() string {
	if s.name != "" {
		return s.name
	}
	return strings.ReplaceAll(s.key, "_", "-")
}

// flagged gives the flag another name than the key's.
func (s setting) flagged(name string) setting {
	s.name = name
	return s
}

// and adds a check.
func (s setting) and(more func(*checker)) setting {
	first := s.check
	s.check = func(k *checker) {
		first(k)
		more(k)
	}
	return s
}

// quoted is a string as documentation shows it.
func quoted(s string) string { return "`" + strconv.Quote(s) + "`" }

// shownDefault is a number, size or duration as documentation shows it.
func shownDefault(v any) string {
	if text, ok := v.(fmt.Stringer); ok {
		return quoted(text.String())
	}
	return fmt.Sprintf("`%v`", v)
}

// number is a setting with a default and a range.
func number[T ~int | ~int64](key string, at func(*Config) *T, usual, least, most T, meaning string) setting {
	return setting{key: key, usual: shownDefault(usual), meaning: meaning,
		check: func(k *checker) { within(k, key, at(k.c), usual, least, most) }}
}

// optional is a number that may be left out, and has a range where it is not.
func optional[T ~int | ~int64](key string, at func(*Config) *T, least, most T, without, meaning string) setting {
	return setting{key: key, usual: without, meaning: meaning,
		check: func(k *checker) {
			if *at(k.c) != 0 || k.c.says(key) {
				within(k, key, at(k.c), 0, least, most)
			}
		}}
}

// Durations that a key may have. Below the shortest no network answers in time.
const (
	shortest = Duration(100 * time.Millisecond)
	longest  = Duration(24 * time.Hour)
)

// timeout is a duration with the range of all.
func timeout(key string, at func(*Config) *Duration, usual time.Duration, meaning string) setting {
	return number(key, at, Duration(usual), shortest, longest, meaning)
}

// choice is one of a few words; the first is the default.
func choice(key string, at func(*Config) *Choice, words []string, flag, meaning string) setting {
	return setting{key: key, usual: quoted(words[0]), flag: flag, meaning: meaning,
		said: func(c *Config, word string) { *at(c) = Choice(word) },
		check: func(k *checker) {
			value := at(k.c)
			if *value == "" && !k.c.says(key) {
				*value = Choice(words[0])
			}
			if !slices.Contains(words, string(*value)) {
				k.fault(key, strconv.Quote(string(*value)), "use one of "+strings.Join(words, ", "))
			}
		}}
}

// listening is where a transport listens: on its port of every address, unless the user
// says otherwise. "none" stands alone.
func listening(t *transport) setting {
	return setting{key: t.name, usual: "`[" + strconv.Quote(everyAddress(t.port).String()) + "]`", flag: t.flag, meaning: t.meaning,
		reset: func(c *Config) { *t.listen(c) = nil },
		add: func(c *Config, word string) error {
			var l Listen
			err := l.UnmarshalText([]byte(word))
			*t.listen(c) = append(*t.listen(c), l)
			return err
		},
		check: func(k *checker) {
			all := t.listen(k.c)
			if len(*all) == 0 {
				*all = []Listen{everyAddress(t.port)}
			}
			if len(*all) > 1 && slices.ContainsFunc(*all, func(l Listen) bool { return l.None }) {
				k.fault(t.name, strings.Join(listed(*all), " and "), `use either "none" or addresses`)
			}
		}}
}

// settingOf finds a key.
func settingOf(key string) *setting {
	for i := range settings {
		if settings[i].key == key {
			return &settings[i]
		}
	}
	return nil
}
