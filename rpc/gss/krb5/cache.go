package krb5

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
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
