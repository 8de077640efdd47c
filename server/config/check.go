package config

import (
	"errors"
	"fmt"
	"net"
	"strconv"
)

// A checker sets the defaults of keys and checks their values. err is the first error.
type checker struct {
	c   *Config
	err error
}

// Check sets defaults and checks all values.
func (c *Config) Check() error {
	k := &checker{c: c}
	for i := range settings {
		if check := settings[i].check; check != nil {
			check(k)
		}
	}
	if k.err == nil {
		k.err = c.checkExports()
	}
	return k.err
}

func (k *checker) fault(key string, found any, remedy string) {
	if k.err == nil {
		k.err = badValue(key, found, remedy)
	}
}

// within sets *value to the default, usual, if it is 0 and the user did not set the key. It then
// checks that *value is from least to most.
func within[T ~int | ~int64](k *checker, key string, value *T, usual, least, most T) {
	if *value == 0 && !k.c.Says(key) {
		*value = usual
	}
	if *value < least || *value > most {
		k.fault(key, *value, fmt.Sprintf("use a value from %v to %v", least, most))
	}
}

// checkFPDU sets the default of rnic.fpdu, and rejects values that iwarp.ParseFPDUSize will
// reject.
func checkFPDU(k *checker) {
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

func checkInline(k *checker) {
	if z := k.c.RNIC.Inline; z%1024 != 0 {
		k.fault("rnic.inline", z, "use a multiple of 1K")
	}
}

func checkMetrics(k *checker) {
	if k.c.Metrics == "" {
		return
	}
	_, port, err := net.SplitHostPort(k.c.Metrics)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		k.fault("metrics", strconv.Quote(k.c.Metrics), "use HOST:PORT such as 127.0.0.1:9427")
	}
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
