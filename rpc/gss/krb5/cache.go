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

// DefaultCache returns the name of this user's credential cache: the environment variable
// KRB5CCNAME or, without it, default_ccache_name of krb5.conf or, without that, /tmp/krb5cc_UID. It
// returns an error if the cache is neither a file nor a directory.
func DefaultCache() (name string, err error) {
	name, from := os.Getenv("KRB5CCNAME"), "KRB5CCNAME"
	if name == "" {
		conf := confPath("")
		if name, err = confCache(conf); err != nil {
			return "", err
		}
		from = "default_ccache_name of " + conf
	}
	if name == "" {
		return fmt.Sprintf("/tmp/krb5cc_%d", os.Getuid()), nil
	}
	if kind, _ := cacheKind(name); kind != kindFile && kind != kindDirectory {
		where := kindNames[kind]
		if where == "" {
			where = "of kind " + kind
		}
		return "", fmt.Errorf("%s is %s: credential caches %s are not read, but files and directories are: use kinit -c /tmp/krb5cc, and KRB5CCNAME=/tmp/krb5cc", from, name, where)
	}
	return name, nil
}

// Kinds of credential caches that this package can read. A cache's name begins with its kind and a
// colon. A cache without a kind is a file.
const (
	kindFile      = "FILE"
	kindDirectory = "DIR"
)

// kindNames describes the kinds of caches that this package cannot read, for error messages.
var kindNames = map[string]string{
	"KCM": "of a KCM service, such as sssd-kcm", "KEYRING": "in the kernel's keyring",
	"MEMORY": "in the memory of another process", "API": "of another system",
}

// cacheKind splits the name of a cache at the first colon, into kind and rest. A name without a
// kind is the path of a file.
func cacheKind(name string) (kind, rest string) {
	kind, rest, typed := strings.Cut(name, ":")
	if !typed || strings.Contains(kind, "/") {
		return kindFile, name
	}
	return kind, rest
}

// cacheFile returns the path of the file of the cache called name. A directory (DIR:) has several
// caches. Its file "primary" contains the file name of the cache to use; without a file "primary",
// it is the file "tkt". The name DIR::PATH means the file at PATH.
func cacheFile(name string) (path string, err error) {
	kind, rest := cacheKind(name)
	switch kind {
	case kindFile:
		return rest, nil
	case kindDirectory:
	default:
		return "", fmt.Errorf("the credential cache %s is neither a file nor a directory", name)
	}
	if file, one := strings.CutPrefix(rest, ":"); one {
		return file, nil
	}
	primary := filepath.Join(rest, "primary")
	first, err := firstLine(primary)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		first = "tkt"
	case err != nil:
		return "", fmt.Errorf("reading %s of the credential caches %s: %w", primary, name, pathless(err))
	case !strings.HasPrefix(first, "tkt") || strings.ContainsAny(first, "/\x00"):
		return "", fmt.Errorf("%s names no credential cache of its directory, but %q: use kinit, or kswitch", primary, first)
	}
	return filepath.Join(rest, first), nil
}

// maxName is the largest number of bytes that firstLine reads.
const maxName = 4 << 10

// firstLine returns the first line of a file.
func firstLine(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxName))
	line, _, _ := strings.Cut(string(text), "\n")
	return line, err
}

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

// maxConfFiles is the largest number of files that are read, so that files may include each other.
// maxConfSize is the largest number of bytes that are read of one file.
const (
	maxConfFiles = 256
	maxConfSize  = 1 << 20
)

// A confReader finds the first value of a relation (a line NAME = VALUE) in [libdefaults].
type confReader struct {
	relation string
	value    string
	files    int
}

// read reads a file and the files that it includes, until it finds the value. A file that does
// not exist counts as empty.
func (c *confReader) read(path string) error {
	if c.files++; c.files > maxConfFiles {
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
			return "", fmt.Errorf("%%{%s lacks its }", unknown)
		}
		return "", fmt.Errorf("%%{%s} is not known here", token)
	}
	return text, nil
}
