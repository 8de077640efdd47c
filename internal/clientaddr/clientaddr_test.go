package clientaddr_test

import (
	"net/netip"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
)

func TestAddressOfAClient(t *testing.T) {
	for a, want := range map[string]string{
		"192.0.2.1":              "192.0.2.1",
		"::ffff:192.0.2.1":       "192.0.2.1",
		"2001:db8:1:2:3:4:5:6":   "2001:db8:1:2::",
		"2001:db8:1:2:ffff::1":   "2001:db8:1:2::",
		"2001:db8:1:3::1":        "2001:db8:1:3::",
		"fe80::1%eth0":           "fe80::1%eth0",
		"fe80::2%eth0":           "fe80::2%eth0",
		"64:ff9b::192.0.2.1":     "64:ff9b::192.0.2.1",
		"::1":                    "::",
		"fd00:1:2:3:4:5:6:7%lan": "fd00:1:2:3::",
	} {
		if got := clientaddr.Of(netip.MustParseAddr(a)); got != netip.MustParseAddr(want) {
			t.Errorf("%s counts under %v, want %s", a, got, want)
		}
	}
	if a := clientaddr.Of(netip.Addr{}); a != (netip.Addr{}) {
		t.Errorf("no address counts under %v", a)
	}
}

func TestSiteOfAClient(t *testing.T) {
	for a, want := range map[string]string{
		"192.0.2.1":          "192.0.2.0",
		"2001:db8:1:2:3::4":  "2001:db8:1::",
		"2001:db8:1:ffff::1": "2001:db8:1::",
		"2001:db8:2::1":      "2001:db8:2::",
		"fe80::1%eth0":       "fe80::%eth0",
		"fe80::2%eth1":       "fe80::%eth1",
		"64:ff9b::192.0.2.1": "64:ff9b::192.0.2.0",
	} {
		if got := clientaddr.Site(clientaddr.Of(netip.MustParseAddr(a))); got != netip.MustParseAddr(want) {
			t.Errorf("the site of %s is %v, want %s", a, got, want)
		}
	}
	if a := clientaddr.Site(netip.Addr{}); a != (netip.Addr{}) {
		t.Errorf("the site of no address is %v", a)
	}
}
