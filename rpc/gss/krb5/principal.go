package krb5

import (
	"fmt"
	"slices"
	"strings"
)

var escapes = strings.NewReplacer(`\`, `\\`, `/`, `\/`, `@`, `\@`, "\n", `\n`, "\t", `\t`, "\b", `\b`, "\x00", `\0`)

// principalText is a principal in words: user@REALM, nfs/host@REALM. A character that
// would make another name of it stands behind a backslash, so that no two principals
// have the same text.
func principalText(components []string, realm string) string {
	var b strings.Builder
	for i, c := range components {
		if i > 0 {
			b.WriteByte('/')
		}
		escapes.WriteString(&b, c)
	}
	b.WriteByte('@')
	escapes.WriteString(&b, realm)
	return b.String()
}

// IsService says whether a principal is that of a service on a host, such as
// nfs/host@REALM: one that contexts can be made with, and not only by.
func IsService(principal string) bool {
	components, realm, err := parsePrincipal(principal)
	return err == nil && len(components) == 2 && realm != ""
}

// IsMachine says whether a principal is one of those under which machines mount (rpc.gssd(8)):
// nfs/HOST, host/HOST, root/HOST, or an account of Active Directory, HOST$.
func IsMachine(principal string) bool {
	components, realm, err := parsePrincipal(principal)
	switch {
	case err != nil || realm == "":
		return false
	case len(components) == 1:
		return strings.HasSuffix(components[0], "$")
	}
	return len(components) == 2 && slices.Contains([]string{"nfs", "host", "root"}, components[0])
}

// parsePrincipal takes a name apart that a person wrote: components and realm, which
// is "" if it has none. Names with escapes are refused.
func parsePrincipal(text string) (components []string, realm string, err error) {
	name, realm, named := strings.Cut(text, "@")
	components = strings.Split(name, "/")
	for _, c := range components {
		if c == "" {
			return nil, "", fmt.Errorf("%q is not a principal such as user@REALM", text)
		}
	}
	if named && realm == "" || strings.ContainsAny(text, `\`) || strings.Contains(realm, "@") {
		return nil, "", fmt.Errorf("%q is not a principal such as user@REALM", text)
	}
	return components, realm, nil
}
