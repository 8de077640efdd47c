package export

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A caller is admitted by what its flavor proves, and by nothing that proves more or
// less.
func TestAdmits(t *testing.T) {
	callers := map[string]rpc.Cred{
		"none":  {Flavor: rpc.AuthNone},
		"sys":   {Flavor: rpc.AuthSys, UID: 1000},
		"krb5":  {Flavor: rpc.AuthGSS, GSS: rpc.GSSNone},
		"krb5i": {Flavor: rpc.AuthGSS, GSS: rpc.GSSIntegrity},
		"krb5p": {Flavor: rpc.AuthGSS, GSS: rpc.GSSPrivacy},
	}
	for _, c := range []struct {
		security []Security
		admitted []string
	}{
		{nil, []string{"none", "sys", "krb5", "krb5i", "krb5p"}},
		{[]Security{Sys}, []string{"none", "sys"}},
		{[]Security{Krb5}, []string{"krb5"}},
		{[]Security{Krb5i, Krb5p}, []string{"krb5i", "krb5p"}},
		{[]Security{Krb5p, Sys}, []string{"none", "sys", "krb5p"}},
	} {
		e := Export{Security: c.security}
		want := make(map[string]bool)
		for _, name := range c.admitted {
			want[name] = true
		}
		for name := range callers {
			cred := callers[name]
			if got := e.Admits(&cred); got != want[name] {
				t.Errorf("%v admits %s: %v", c.security, name, got)
			}
		}
	}
}

func TestServiceOfSecurity(t *testing.T) {
	for i, want := range []rpc.GSSService{0, rpc.GSSNone, rpc.GSSIntegrity, rpc.GSSPrivacy} {
		if got := Securities[i].GSSService(); got != want {
			t.Errorf("%s: service %d", SecurityNames[i], got)
		}
	}
}

// Who has no numbers here acts as nobody, whatever the export squashes.
func TestAnonymousPrincipal(t *testing.T) {
	for _, squash := range []Squash{RootSquash, NoSquash, AllSquash} {
		e := Export{Squash: squash, AnonUID: 42, AnonGID: 43}
		c := rpc.Cred{Flavor: rpc.AuthGSS, GSS: rpc.GSSNone, Principal: "x@Y", Anonymous: true}
		var as vfs.Cred
		e.Identify(&c, &as)
		if as.UID != 42 || as.GID != 43 || len(as.Groups) != 0 {
			t.Errorf("squash %d: %+v", squash, as)
		}
	}
}
