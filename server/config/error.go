package config

import (
	"errors"
	"fmt"
	"strings"
)

// An Error reports, in one line, where a configuration is wrong and what to do about it.
type Error struct {
	File string // the file, or the flag, such as --export
	Line int    // the line in the file, or 0 if it is not known
	Err  error
}

func (e *Error) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err)
	}
	return fmt.Sprintf("%s: %v", e.File, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// A KeyError is an error in the value of one key. Config.Fault adds the place where the user set
// the key.
type KeyError struct {
	Key string // dotted, such as memory.ceiling: see place
	Err error
}

func (e *KeyError) Error() string { return e.Err.Error() }
func (e *KeyError) Unwrap() error { return e.Err }

// badValue returns the error for a key whose value is not allowed; found is that value.
func badValue(key string, found any, remedy string) error {
	return &KeyError{key, fmt.Errorf("%s = %v: %s", lastPart(key), found, remedy)}
}

// ExportKey returns the dotted key of the element of Config.Exports with the given index, such as
// "export[0]".
func ExportKey(index int) string { return fmt.Sprintf("export[%d]", index) }

// lastPart returns the key without the names of its tables.
func lastPart(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }

// Fault turns an error into an *Error. If it is about a key that the user set, the *Error names
// the line of the file, or the flag. Otherwise it names the file alone, or "configuration".
func (c *Config) Fault(err error) error {
	at := place{file: c.file}
	if at.file == "" {
		at.file = "configuration"
	}
	var about *KeyError
	if errors.As(err, &about) {
		if said, ok := c.origin[about.Key]; ok {
			at = said
		}
	}
	return &Error{File: at.file, Line: at.line, Err: err}
}

// Cause returns the innermost error, usually the kernel's. Unlike the errors around it, it does not
// repeat the path that the message already has.
func Cause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
