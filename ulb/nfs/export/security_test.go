package export

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// An export admits a caller only if exactly the caller's flavor is listed, not if a stronger or a
// weaker one is.
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
			if got := e.Admits(&rpc.Conn{}, &cred); got != want[name] {
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

// A principal without an account on this machine acts as the anonymous user, whatever the export's
// Squash is.
func TestAnonymousPrincipal(t *testing.T) {
	for _, squash := range []Squash{RootSquash, NoSquash, AllSquash} {
		e := Export{Options: Options{Squash: squash, AnonUID: 42, AnonGID: 43}}
		c := rpc.Cred{Flavor: rpc.AuthGSS, GSS: rpc.GSSNone, Principal: "x@Y", Anonymous: true}
		var as vfs.Cred
		e.Identify(&c, new(Looked), &as)
		if as.UID != 42 || as.GID != 43 || len(as.Groups) != 0 {
			t.Errorf("squash %d: %+v", squash, as)
		}
	}
}

// For a client, the flavors of the smallest network that contains its address count, in whatever
// order the networks are listed.
func TestSecurityByNetwork(t *testing.T) {
	network := netip.MustParsePrefix
	e := Export{
		Security: []Security{Krb5p},
		Networks: []NetworkSecurity{
			{network("192.0.2.0/24"), []Security{Sys}},
			{network("192.0.0.0/16"), []Security{Krb5}},
			{network("192.0.2.128/25"), []Security{Krb5i}},
			{network("2001:db8::/32"), []Security{Sys, Krb5}},
			{network("fe80::1/128"), []Security{Krb5}},
		},
	}
	for client, want := range map[string][]Security{
		"192.0.2.1": {Sys}, "::ffff:192.0.2.1": {Sys}, "192.0.2.129": {Krb5i}, "192.0.3.1": {Krb5}, "192.1.0.1": {Krb5p},
		"2001:db8:1::1": {Sys, Krb5}, "2001:db9::1": {Krb5p}, "fe80::1%eth0": {Krb5}, "fe80::2%eth0": {Krb5p},
	} {
		c := rpc.Conn{Peer: netip.AddrPortFrom(netip.MustParseAddr(client), 700)}
		if got := e.SecurityFor(c.Peer.Addr()); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", client, got, want)
		}
		for _, s := range Securities {
			cred := rpc.Cred{Flavor: rpc.AuthSys}
			if s != Sys {
				cred = rpc.Cred{Flavor: rpc.AuthGSS, GSS: s.GSSService()}
			}
			if got := e.Admits(&c, &cred); got != slices.Contains(want, s) {
				t.Errorf("%s: %v admitted: %v", client, s, got)
			}
		}
	}
	e.Security = nil
	if got := e.SecurityFor(netip.MustParseAddr("198.51.100.1")); got != nil {
		t.Errorf("other clients of an export for all flavors: %v", got)
	}
}
