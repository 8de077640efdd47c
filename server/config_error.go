package server

import (
	"errors"
	"fmt"
	"strings"
)

// A ConfigError reports, in one line, where a configuration is wrong and what to do about it.
type ConfigError struct {
	File string // or a flag
	Line int    // 0 if there is none
	Err  error
}

func (e *ConfigError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err)
	}
	return fmt.Sprintf("%s: %v", e.File, e.Err)
}

func (e *ConfigError) Unwrap() error { return e.Err }

// A keyError is an error in the value of one key.
type keyError struct {
	key string // in the form of place
	err error
}

func (e *keyError) Error() string { return e.err.Error() }
func (e *keyError) Unwrap() error { return e.err }

// badValue reports that a key cannot have the value found.
func badValue(key string, found any, remedy string) error {
	return &keyError{key, fmt.Errorf("%s = %v: %s", lastPart(key), found, remedy)}
}

// exportKey returns the key of one of Config.Exports.
func exportKey(index int) string { return fmt.Sprintf("export[%d]", index) }

// lastPart returns the key without its tables.
func lastPart(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }

// fault turns an error into a ConfigError with the place where the user set the key: a line of
// the file, a flag, or none.
func (c *Config) fault(err error) error {
	at := place{file: c.file}
	if at.file == "" {
		at.file = "configuration"
	}
	var about *keyError
	if errors.As(err, &about) {
		if said, ok := c.origin[about.key]; ok {
			at = said
		}
	}
	return &ConfigError{File: at.file, Line: at.line, Err: err}
}

// cause returns the innermost error: the kernel's, without the path, which the message already
// names.
func cause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
