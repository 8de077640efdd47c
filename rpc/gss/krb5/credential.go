package krb5

import (
	"fmt"
	"os"
	"strings"
)

// DefaultCache is the path of the credential cache that programs of this user take: that
// of the environment's KRB5CCNAME, or else /tmp/krb5cc_UID. Caches that are no file are
// refused.
func DefaultCache() (path string, err error) {
	name := os.Getenv("KRB5CCNAME")
	if name == "" {
		return fmt.Sprintf("/tmp/krb5cc_%d", os.Getuid()), nil
	}
	kind, rest, typed := strings.Cut(name, ":")
	switch {
	case !typed || strings.Contains(kind, "/"):
		return name, nil
	case kind == "FILE":
		return rest, nil
	}
	return "", fmt.Errorf("KRB5CCNAME=%s: of credential caches only files are read: use kinit -c /tmp/krb5cc, and KRB5CCNAME=/tmp/krb5cc", name)
}

// FirstPrincipal is the principal of the first key of AES in a keytab.
func FirstPrincipal(path string) (string, error) {
	read, err := readKeytab(path)
	if err != nil {
		return "", err
	}
	if len(read.keys) == 0 {
		return "", fmt.Errorf("the keytab %s has no key of AES", path)
	}
	return principalText(read.keys[0].components, read.keys[0].realm), nil
}
