package export

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// Security is a way in which callers may prove who they are: an RPC flavor, or a
// mechanism of RPCSEC_GSS with a service, by its number as a flavor (RFC 2623 §4.3).
type Security uint32

// Kinds of security, as mount's option sec= names them: AUTH_SYS, and Kerberos that
// proves who calls, that protects against change, and that encrypts.
const (
	Sys   Security = 1
	Krb5  Security = 390003
	Krb5i Security = 390004
	Krb5p Security = 390005
)

// Securities are all there are, and SecurityNames what they are called.
var (
	Securities    = []Security{Sys, Krb5, Krb5i, Krb5p}
	SecurityNames = []string{"sys", "krb5", "krb5i", "krb5p"}
)

// GSSService is the service of RPCSEC_GSS that s stands for, 0 for none.
func (s Security) GSSService() rpc.GSSService {
	if s < Krb5 || s > Krb5p {
		return 0
	}
	return rpc.GSSNone + rpc.GSSService(s-Krb5)
}

// String is the name of mount's option.
func (s Security) String() string {
	if i := slices.Index(Securities, s); i >= 0 {
		return SecurityNames[i]
	}
	return fmt.Sprintf("flavor %d", uint32(s))
}

// SecurityOf is how a caller proved who it is. A caller that says nothing counts as
// under AUTH_SYS, and acts as the anonymous user.
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

// SecurityFor are the ways in which callers from an address may prove who they are, the
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

// Admits says whether a caller over a connection proved who it is in one of the ways that
// the export asks for.
func (e *Export) Admits(c *rpc.Conn, cred *rpc.Cred) bool {
	all := e.SecurityFor(c.Peer.Addr())
	return len(all) == 0 || slices.Contains(all, SecurityOf(cred))
}

// OnRefusedFlavor has f told of each call that is refused because its export does not take
// the caller's flavor, on the goroutine that judges the call: it must not block. It is
// called before the Table is used.
func (t *Table) OnRefusedFlavor(f func(c *rpc.Conn, e *Export, as Security)) { t.refusedFlavor = f }

// RefusedFlavor tells of such a call.
func (t *Table) RefusedFlavor(c *rpc.Conn, e *Export, cred *rpc.Cred) {
	if t.refusedFlavor != nil {
		t.refusedFlavor(c, e, SecurityOf(cred))
	}
}
