package config

import (
	"errors"
	"fmt"
	"net"
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
