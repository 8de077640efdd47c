package krb5

import (
	"fmt"
)

// FirstPrincipal returns the principal of the first key in the keytab at path whose encryption type
// this package supports.
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
