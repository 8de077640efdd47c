package config

import (
	"cmp"
	"fmt"
	"strings"
)

// Kerberos configures callers that authenticate by Kerberos.
type Kerberos struct {
	// Keytab is the file with the server's keys.
	Keytab string `toml:"keytab"`
	// Realm is the realm whose principals act as the users of this machine that have the same
	// names. Empty means the default realm of krb5.conf.
	Realm string `toml:"realm"`
	// Principals maps principals of any realm to the users as which they act. Each entry is
	// PRINCIPAL=USER.
	Principals []Choice `toml:"principals"`
}

// defaultKeytab is the usual file with a machine's keys.
const defaultKeytab = "/etc/krb5.keytab"

// kerberosSettings has the keys of the table [kerberos].
var kerberosSettings = []setting{
	{key: "kerberos.keytab", usual: quoted(defaultKeytab),
		check: func(c *Config) error {
			c.Kerberos.Keytab = cmp.Or(c.Kerberos.Keytab, defaultKeytab)
			return nil
		},
		meaning: "the file with the server's keys, for a principal `nfs/HOST@REALM` where HOST is the host name that clients mount. The daemon reads the file again when it changes"},
	{key: "kerberos.realm", usual: "`default_realm` of `/etc/krb5.conf`",
		meaning: "the realm whose principals act as the users of this machine that have the same names"},
	{key: "kerberos.principals", usual: "none", check: checkPrincipals,
		meaning: "the users of other principals, such as `[\"backup/host@EXAMPLE.ORG=backup\"]`. A principal that has no user here acts as the anonymous user, or is refused if the export has the option `require_account`. Write a `\\` before a `/`, `@` or `\\` that is part of a name. The principal `root@REALM` of the realm above is user 0, and acts as user 0 if the export has `no_root_squash`"},
}

func checkPrincipals(c *Config) error {
	const key = "kerberos.principals"
	said := make(map[string]bool)
	for _, word := range c.Kerberos.Principals {
		p, user, ok := SplitPrincipal(string(word))
		switch {
		case !ok || user == "" || !strings.Contains(p, "@"):
			return badValue(key, fmt.Sprintf("%q", word), `write PRINCIPAL@REALM=USER, such as "backup/host@EXAMPLE.ORG=backup"`)
		case said[p]:
			return badValue(key, fmt.Sprintf("%q", word), "name each principal once")
		}
		said[p] = true
	}
	return nil
}

// SplitPrincipal splits PRINCIPAL=USER at the last '='. If there is no '=', ok is false.
func SplitPrincipal(word string) (principal, user string, ok bool) {
	i := strings.LastIndexByte(word, '=')
	if i < 0 {
		return "", "", false
	}
	return word[:i], word[i+1:], true
}
