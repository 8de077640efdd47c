package export

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// Security is the number of a security flavor: an RPC flavor, or a pseudo flavor, which stands for
// Kerberos under RPCSEC_GSS with one of the services (RFC 2623 §4.3).
type Security uint32

// Kinds of security, named as in mount's option sec=. Krb5 proves the caller's identity by Kerberos,
// Krb5i also protects calls against changes, and Krb5p also encrypts them.
const (
	Sys   Security = 1
	Krb5  Security = 390003
	Krb5i Security = 390004
	Krb5p Security = 390005
)

// Securities holds all kinds of security, SecurityNames their names.
var (
	Securities    = []Security{Sys, Krb5, Krb5i, Krb5p}
	SecurityNames = []string{"sys", "krb5", "krb5i", "krb5p"}
)

// GSSService returns the RPCSEC_GSS service of s, or 0 if s is no Kerberos flavor.
func (s Security) GSSService() rpc.GSSService {
	if s < Krb5 || s > Krb5p {
		return 0
	}
	return rpc.GSSNone + rpc.GSSService(s-Krb5)
}

// String returns the name in mount's option sec=.
func (s Security) String() string {
	if i := slices.Index(Securities, s); i >= 0 {
		return SecurityNames[i]
	}
	return fmt.Sprintf("flavor %d", uint32(s))
}

// NetworkSecurity is Export.Security for the clients of one network.
type NetworkSecurity struct {
	Network  netip.Prefix
	Security []Security // the preferred first; empty means all
}

func (n NetworkSecurity) equal(as NetworkSecurity) bool {
	return n.Network == as.Network && slices.Equal(n.Security, as.Security)
}

// Opener compares the access that two exports give to the same files. If e is more open than inner,
// because it serves more clients or accepts a weaker flavor, Opener returns that reason, else "".
func (e *Export) Opener(inner *Export) (why string) {
	for _, a := range borders(e, inner) {
		switch weak := e.weakest(a); {
		case !e.ServesAddr(a):
		case !inner.ServesAddr(a):
			return fmt.Sprintf("serves clients such as %v, and %s does not", a, inner.Name)
		case weak < inner.weakest(a):
			return fmt.Sprintf("takes sec=%v from clients such as %v, and %s wants %v", weak, a, inner.Name, inner.weakest(a))
		}
	}
	return ""
}

// weakest returns the weakest security flavor that a client at an address may use.
func (e *Export) weakest(a netip.Addr) Security {
	if all := e.SecurityFor(a); len(all) > 0 {
		return slices.Min(all)
	}
	return Sys
}

// borders returns at least one address from each range of addresses that the exports treat alike: the
// first address of all, the first of each network, and the first after each network.
func borders(exports ...*Export) []netip.Addr {
	all := []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
	add := func(p netip.Prefix) {
		all = append(all, p.Masked().Addr())
		if next := last(p).Next(); next.IsValid() {
			all = append(all, next)
		}
	}
	for _, e := range exports {
		for _, p := range e.Clients {
			add(p)
		}
		for _, n := range e.Networks {
			add(n.Network)
		}
	}
	return all
}

// last returns the last address of a network.
func last(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for bit := p.Bits(); bit < len(b)*8; bit++ {
		b[bit/8] |= 0x80 >> (bit % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
