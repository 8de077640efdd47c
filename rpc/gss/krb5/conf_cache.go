package krb5

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
)

// confCache returns default_ccache_name in [libdefaults] of the krb5.conf at path, or "" if there
// is no such line or no file. This package reads the line itself, because the library that reads
// krb5.conf ignores it, and ignores included files.
func confCache(path string) (name string, err error) {
	c := confReader{relation: "default_ccache_name"}
	if err := c.read(path); err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	if name, err = expanded(c.value); err != nil {
		return "", fmt.Errorf("default_ccache_name of %s: %w: set KRB5CCNAME", path, err)
	}
	return name, nil
}

// maxConfDepth is the largest depth of included files. maxConfFiles is the largest number of files
// that are read. maxConfSize is the largest number of bytes that are read of one file.
const (
	maxConfDepth = 10
	maxConfFiles = 256
	maxConfSize  = 1 << 20
)

// A confReader finds the first value of a relation (a line NAME = VALUE) in [libdefaults].
type confReader struct {
	relation     string
	value        string
	depth, files int
}

// read reads a file and the files that it includes, until it finds the value. A file that does
// not exist counts as empty.
func (c *confReader) read(path string) error {
	if c.files++; c.files > maxConfFiles || c.depth == maxConfDepth {
		return errors.New("too many files are included")
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	c.depth++
	defer func() { c.depth-- }()
	inside, lines := false, bufio.NewScanner(io.LimitReader(f, maxConfSize))
	for c.value == "" && lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case strings.HasPrefix(line, "["):
			inside = strings.HasPrefix(line, "[libdefaults]")
		case word == "include":
			err = c.read(strings.TrimSpace(rest))
		case word == "includedir":
			err = c.readAll(strings.TrimSpace(rest))
		case inside:
			if key, value, ok := strings.Cut(line, "="); ok && strings.TrimSpace(key) == c.relation {
				c.value = strings.Trim(strings.TrimSpace(value), `"`)
			}
		}
		if err != nil {
			return err
		}
	}
	return lines.Err()
}

// readAll reads the files of a directory whose names confName accepts.
func (c *confReader) readAll(dir string) error {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if !confName(e.Name()) || e.IsDir() {
			continue
		}
		if err := c.read(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// confName reports whether includedir includes a file with this name: the name does not begin with
// a dot, and either ends in .conf, or has only letters, digits, dashes and underscores.
func confName(name string) bool {
	if strings.HasPrefix(name, ".") {
		return false
	}
	odd := func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		return !letter && (r < '0' || r > '9') && r != '-' && r != '_'
	}
	return strings.HasSuffix(name, ".conf") || !strings.ContainsFunc(name, odd)
}

// expanded replaces tokens such as %{uid} and %{TEMP} in a path of krb5.conf.
func expanded(text string) (string, error) {
	uid, euid := strconv.Itoa(os.Getuid()), strconv.Itoa(os.Geteuid())
	text = strings.NewReplacer("%{uid}", uid, "%{USERID}", uid, "%{euid}", euid, "%{TEMP}", os.TempDir(), "%{null}", "").Replace(text)
	if strings.Contains(text, "%{username}") {
		u, err := user.LookupId(euid)
		if err != nil {
			return "", err
		}
		text = strings.ReplaceAll(text, "%{username}", u.Username)
	}
	if _, unknown, found := strings.Cut(text, "%{"); found {
		token, _, closed := strings.Cut(unknown, "}")
		if !closed {
			return "", fmt.Errorf("%%{%s has no end", unknown)
		}
		return "", fmt.Errorf("%%{%s} is not known here", token)
	}
	return text, nil
}
