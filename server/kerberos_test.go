package server

import (
	"slices"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
)

// A principal is the user that the configuration names, or the one of its name in the
// own realm, and nobody else's.
func TestUserOfPrincipal(t *testing.T) {
	p := &principals{
		realm: "EXAMPLE.ORG", named: map[string]string{"backup/host@EXAMPLE.ORG": "backup", "eve@EXAMPLE.ORG": "mallory"},
		account: func(user string) (uid, gid uint32, groups []uint32, ok bool) {
			return map[string]uint32{"alice": 1000, "backup": 34, "mallory": 1001}[user], 100, nil, user != "unknown"
		},
	}
	for principal, uid := range map[string]uint32{
		"alice@EXAMPLE.ORG": 1000, "backup/host@EXAMPLE.ORG": 34, "eve@EXAMPLE.ORG": 1001,
	} {
		if got, _, _, ok := p.identify(principal); !ok || got != uid {
			t.Errorf("%s is user %d, %v, want %d", principal, got, ok, uid)
		}
	}
	for _, principal := range []string{
		"alice@OTHER.ORG", "alice", "alice@", "alice/admin@EXAMPLE.ORG", `ali\ce@EXAMPLE.ORG`, "alice@EXAMPLE.ORG@EXAMPLE.ORG",
		"backup/host@OTHER.ORG", "unknown@EXAMPLE.ORG", "",
	} {
		if uid, _, _, ok := p.identify(principal); ok {
			t.Errorf("%q is user %d", principal, uid)
		}
	}
	p.realm = ""
	if _, _, _, ok := p.identify("alice@"); ok {
		t.Error("without a realm, everybody is a user")
	}
}

func TestSecOption(t *testing.T) {
	for text, want := range map[string][]export.Security{
		"":                       {export.Sys},
		"ro":                     {export.Sys},
		"sec=krb5p":              {export.Krb5p},
		"sec=krb5p:krb5i:sys":    {export.Krb5p, export.Krb5i, export.Sys},
		"sec=krb5:krb5,rw":       {export.Krb5},
		"ro,sec=sys,root_squash": {export.Sys},
	} {
		var o ExportOptions
		if err := o.UnmarshalText([]byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		var e export.Export
		if o.apply(&e); !slices.Equal(e.Security, want) {
			t.Errorf("%q: %v, want %v", text, e.Security, want)
		}
	}
	for text, says := range map[string]string{
		"sec=krb4": "no flavor", "sec=": "no flavor", "sec": "no flavor", "sec=sys;krb5": "no flavor",
		"sec=sys:": "no flavor", "sec=sys,sec=krb5": "contradict",
	} {
		var o ExportOptions
		if err := o.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestPrincipalsOfTheConfiguration(t *testing.T) {
	for text, good := range map[string]bool{
		`["backup/host@EXAMPLE.ORG=backup"]`: true,
		`["a@B=c", "d@E=f"]`:                 true,
		`["alice"]`:                          false,
		`["alice=alice"]`:                    false,
		`["alice@EXAMPLE.ORG="]`:             false,
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
