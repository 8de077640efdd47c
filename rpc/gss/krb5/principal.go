package krb5

import (
	"fmt"
	"slices"
	"strings"
)

var escapes = strings.NewReplacer(`\`, `\\`, `/`, `\/`, `@`, `\@`, "\n", `\n`, "\t", `\t`, "\b", `\b`, "\x00", `\0`)

// principalText returns a principal as text, such as user@REALM or nfs/host@REALM. It escapes
// special characters with a backslash, so that no two principals have the same text.
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

// IsService reports whether a principal has the form of a service on a host, such as
// nfs/host@REALM. Such a principal can accept contexts.
func IsService(principal string) bool {
	components, realm, err := parsePrincipal(principal)
	return err == nil && len(components) == 2 && realm != ""
}

// IsMachine reports whether a principal's name has a form that machines use when they mount
// (rpc.gssd(8)): nfs/HOST, host/HOST, root/HOST, or HOST$, which is a machine account of Active
// Directory.
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

// parsePrincipal splits text, a principal from a configuration, into components and realm. realm is
// "" if text has none. It returns an error for a text with a backslash.
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
