package config

import "testing"

func TestPrincipalsOfTheConfiguration(t *testing.T) {
	for text, good := range map[string]bool{
		`["backup/host@EXAMPLE.ORG=backup"]`: true,
		`["a@B=c", "d@E=f"]`:                 true,
		`["alice"]`:                          false,
		`["alice=alice"]`:                    false,
		`["alice@EXAMPLE.ORG="]`:             false,
		`["a@B=c", "a@B=d"]`:                 false,
		`["a@B=c", "a@B=c"]`:                 false,
		`["a\\@b@B=c"]`:                      true,
	} {
		c, err := parseConfig("test.toml", []byte("[kerberos]\nprincipals = "+text+"\n"))
		if (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
		if good && c.Kerberos.Keytab != defaultKeytab {
			t.Errorf("%s: keytab %q", text, c.Kerberos.Keytab)
		}
	}
}

func TestAccountOfTheConfiguration(t *testing.T) {
	for text, want := range map[string]string{
		``: "%u", `account = "%u@%d"`: "%u@%d", `account = "%r+%u"`: "%r+%u", `account = "alice"`: "", `account = "%u%u"`: "", `account = "%u@%x"`: "", `account = "%u%"`: "",
	} {
		c, err := parseConfig("test.toml", []byte("[kerberos]\n"+text+"\n"))
		if (err == nil) != (want != "") || err == nil && c.Kerberos.Account != want {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
