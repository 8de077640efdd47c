package export

import (
	"net/netip"
	"strings"
	"testing"
)

// An export is more open than another one if it serves a client that the other does not serve, or
// accepts a weaker security flavor from a client.
func TestOpenerExports(t *testing.T) {
	nets := func(all ...string) (p []netip.Prefix) {
		for _, s := range all {
			p = append(p, netip.MustParsePrefix(s))
		}
		return p
	}
	at := func(network string, s ...Security) []NetworkSecurity {
		return []NetworkSecurity{{netip.MustParsePrefix(network), s}}
	}
	sys, krb := []Security{Sys}, []Security{Krb5p, Krb5i}
	for _, c := range []struct {
		name         string
		outer, inner *Export
		why          string
	}{
		{"alike", &Export{Security: krb}, &Export{Security: krb}, ""},
		{"nothing said", &Export{}, &Export{Security: sys}, ""},
		{"a weaker flavor", &Export{Security: sys}, &Export{Security: krb}, "sec=sys"},
		{"no flavor", &Export{}, &Export{Security: krb}, "sec=sys"},
		{"one weaker flavor beside others", &Export{Security: []Security{Krb5p, Krb5}}, &Export{Security: krb}, "sec=krb5 "},
		{"stronger flavors", &Export{Security: []Security{Krb5p}}, &Export{Security: []Security{Krb5}}, ""},
		{"a weaker flavor for one network", &Export{Security: krb, Networks: at("192.0.2.0/24", Sys)}, &Export{Security: krb}, "such as 192.0.2.0"},
		{"the same for clients that neither has", &Export{Security: krb, Networks: at("192.0.2.0/24", Sys), Clients: nets("10.0.0.0/8")}, &Export{Security: krb}, ""},
		{"the network is weaker in both", &Export{Security: krb, Networks: at("192.0.2.0/25", Sys)}, &Export{Security: krb, Networks: at("192.0.2.0/24", Sys)}, ""},
		{"the network is wider", &Export{Security: krb, Networks: at("192.0.2.0/24", Sys)}, &Export{Security: krb, Networks: at("192.0.2.0/25", Sys)}, "such as 192.0.2.128"},
		{"a smaller network is strict in the inner one", &Export{Security: sys}, &Export{Security: sys, Networks: at("2001:db8::/64", Krb5)}, "such as 2001:db8::,"},
		{"all clients", &Export{}, &Export{Clients: nets("10.0.0.0/8")}, "does not"},
		{"more clients", &Export{Clients: nets("10.0.0.0/8", "192.0.2.1/32")}, &Export{Clients: nets("10.0.0.0/8")}, "such as 192.0.2.1,"},
		{"a wider network", &Export{Clients: nets("10.0.0.0/8")}, &Export{Clients: nets("10.0.0.0/9")}, "such as 10.128.0.0"},
		{"the network in two parts", &Export{Clients: nets("10.0.0.0/8")}, &Export{Clients: nets("10.0.0.0/9", "10.128.0.0/9")}, ""},
		{"fewer clients", &Export{Clients: nets("10.1.0.0/16")}, &Export{Clients: nets("10.0.0.0/8")}, ""},
		{"a network at the end", &Export{Clients: nets("255.255.255.0/24")}, &Export{Clients: nets("255.255.255.0/25")}, "such as 255.255.255.128"},
	} {
		c.outer.Name, c.inner.Name = "/outer", "/inner"
		why := c.outer.Opener(c.inner)
		if (why == "") != (c.why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%s: %q, want %q", c.name, why, c.why)
		}
	}
}
