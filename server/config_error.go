package server

import (
	"errors"
	"fmt"
	"strings"
)

// A ConfigError says where a configuration is wrong and what to do about it, in
// one line.
type ConfigError struct {
	File string // or the flag
	Line int    // 0 where there is none
	Err  error
}

func (e *ConfigError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err)
	}
	return fmt.Sprintf("%s: %v", e.File, e.Err)
}

func (e *ConfigError) Unwrap() error { return e.Err }

// A keyError is about the value of one key. Its text begins with the key where
// the text does not name it.
type keyError struct {
	key string // as in place
	err error
}

func (e *keyError) Error() string { return e.err.Error() }
func (e *keyError) Unwrap() error { return e.err }

// badValue says that a key cannot have the value found.
func badValue(key string, found any, remedy string) error {
	return &keyError{key, fmt.Errorf("%s = %v: %s", lastPart(key), found, remedy)}
}

// exportKey is the key of one of Config.Exports.
func exportKey(index int) string { return fmt.Sprintf("export[%d]", index) }

// lastPart is the key without the tables that it is in.
func lastPart(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }

// fault makes an error of what the user said a ConfigError that says where it was
// said: in a line of the file, by a flag, or not at all.
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

// cause is the innermost error: what the kernel said, without the path that the
// message names already.
func cause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
