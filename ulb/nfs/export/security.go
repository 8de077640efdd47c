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

// Kinds of security, named as in mount's option sec=. Sys is AUTH_SYS. Krb5 proves the caller's
// identity by Kerberos, Krb5i also protects calls against changes, and Krb5p also encrypts them.
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

// SecurityOf returns the flavor of a caller. For a caller under AUTH_NONE it returns Sys; such a
// caller acts as the anonymous user.
func SecurityOf(c *rpc.Cred) Security {
	if c.Flavor != rpc.AuthGSS {
		return Sys
	}
	return Krb5 + Security(c.GSS-rpc.GSSNone)
}

// NetworkSecurity is Export.Security for the clients of one network.
type NetworkSecurity struct {
	Network  netip.Prefix
	Security []Security // the preferred first; empty means all
}

func (n NetworkSecurity) equal(as NetworkSecurity) bool {
	return n.Network == as.Network && slices.Equal(n.Security, as.Security)
}

// SecurityFor returns the security flavors that callers from an address may use, the
// preferred first; empty means all.
func (e *Export) SecurityFor(a netip.Addr) []Security {
	all, bits := e.Security, -1
	if len(e.Networks) == 0 {
		return all
	}
	a = a.Unmap().WithZone("")
	for i := range e.Networks {
		if n := &e.Networks[i]; n.Network.Bits() > bits && n.Network.Contains(a) {
			all, bits = n.Security, n.Network.Bits()
		}
	}
	return all
}

// Admits reports whether the export accepts the caller's security flavor from the peer of a
// connection.
func (e *Export) Admits(c *rpc.Conn, cred *rpc.Cred) bool {
	all := e.SecurityFor(c.Peer.Addr())
	return len(all) == 0 || slices.Contains(all, SecurityOf(cred))
}

// OnRefusedFlavor sets a function that the Table calls for each call refused because of its
// security flavor. f runs on the goroutine that serves the call, and must not block. The server
// calls OnRefusedFlavor before it uses the Table.
func (t *Table) OnRefusedFlavor(f func(c *rpc.Conn, e *Export, as Security)) { t.refusedFlavor = f }

// RefusedFlavor tells the function that OnRefusedFlavor has set about a refused call.
func (t *Table) RefusedFlavor(c *rpc.Conn, e *Export, cred *rpc.Cred) {
	if t.refusedFlavor != nil {
		t.refusedFlavor(c, e, SecurityOf(cred))
	}
}
