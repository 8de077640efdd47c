package config

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
)

// checkTOML returns an error, and its line, if text is not TOML, or sets a key twice.
func checkTOML(text []byte) (line int, err error) {
	if bytes.HasPrefix(text, []byte("\ufeff")) {
		return 1, errors.New("the file begins with a byte order mark: save it as UTF-8 without one (sed -i '1s/^\\xEF\\xBB\\xBF//')")
	}
	if !utf8.Valid(text) {
		return 1 + bytes.Count(text[:invalid(text)], []byte("\n")), errors.New("the file is not UTF-8: save it as UTF-8")
	}
	err = toml.Unmarshal(text, new(map[string]any))
	if err == nil {
		return 0, nil
	}
	decode, ok := errors.AsType[*toml.DecodeError](err)
	if !ok {
		return 0, err
	}
	line, _ = decode.Position()
	said := strings.TrimPrefix(decode.Error(), "toml: ")
	lines := strings.Split(string(text), "\n")
	if line < 1 || line > len(lines) {
		return line, errors.New(said)
	}
	if strings.Contains(said, " already ") && !strings.Contains(said, "array") { // "already defined", "already exists"
		return line, fmt.Errorf("%s is there twice: leave one of the two out", strings.TrimSpace(lines[line-1]))
	}
	if hint := tomlHint(strings.TrimSpace(lines[line-1])); hint != "" {
		return line, errors.New(hint)
	}
	return line, fmt.Errorf("this is not TOML (%s): write KEY = VALUE, with strings in quotes", said)
}

func invalid(text []byte) (at int) {
	for at < len(text) {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size == 1 {
			return at
		}
		at += size
	}
	return at
}

// tomlHint returns the advice for a line with a frequent mistake, or "".
func tomlHint(line string) string {
	key, value, assigned := strings.Cut(line, "=")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	switch {
	case strings.HasPrefix(line, ";"):
		return "a comment begins with '#': write # instead of ;"
	case strings.HasPrefix(line, "//"):
		return "a comment begins with '#': write # instead of //"
	case strings.ContainsAny(line, "“”„‘’«»"):
		return fmt.Sprintf("%s: these are not the quotes of TOML: write %s", line, strings.NewReplacer("“", `"`, "”", `"`, "„", `"`, "‘", `"`, "’", `"`, "«", `"`, "»", `"`).Replace(line))
	case strings.HasPrefix(line, "/") && strings.Contains(line, "("):
		return "this looks like a line of /etc/exports: convert the file with 'nfsrdmad exports convert', or give it with --exports"
	case !assigned && strings.Contains(line, ":"):
		key, value, _ := strings.Cut(line, ":")
		return fmt.Sprintf("a key and its value are separated by '=': write %s = %s", strings.TrimSpace(key), strings.TrimSpace(value))
	case assigned && value == "":
		return fmt.Sprintf("%s has no value: write one, or remove the line", key)
	case assigned && (value == "yes" || value == "no" || value == "on" || value == "off") && isSwitch(key):
		return fmt.Sprintf("%s is true or false: write %s = %v", key, key, value == "yes" || value == "on")
	case assigned && !strings.ContainsAny(value, "\"'[]{}#, "):
		return fmt.Sprintf("%s: a string needs quotes: write %s = %q", value, key, value)
	case assigned && strings.Count(value, `"`)%2 == 1:
		return fmt.Sprintf("%s: a quote is missing: a string begins and ends with one", line)
	}
	return ""
}

// isSwitch reports whether a key, given without its table, is true or false.
func isSwitch(key string) bool {
	return slices.ContainsFunc(settings, func(s setting) bool {
		if strings.HasPrefix(s.key, "export.") || lastPart(s.key) != key {
			return false
		}
		return isBool(reflect.TypeOf(new(Config).field(s.key)).Elem())
	})
}
