package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// Transport is the name of a transport.
type Transport string

// Transports.
const (
	TCP  Transport = "tcp"
	RDMA Transport = "rdma"
)

// Ports that NFS servers listen on by default.
const (
	PortNFS  = 2049
	PortRDMA = 20049 // RFC 8267 §8
)

// ParseTransport returns the Transport that s names: "tcp" or "rdma". It returns an error for any
// other text.
func ParseTransport(s string) (Transport, error) {
	if t := Transport(s); t == TCP || t == RDMA {
		return t, nil
	}
	return "", fmt.Errorf("transport %q is none of tcp, rdma", s)
}

// Port returns the default port of NFS servers on t.
func (t Transport) Port() int {
	if t == RDMA {
		return PortRDMA
	}
	return PortNFS
}

// A Target names a server, and says how to connect and call.
type Target struct {
	Transport Transport
	// Host is a name or an address, without brackets.
	Host string
	// Port is the server's port; 0 means the transport's default port.
	Port int
	// Provider connects over RDMA: see package providers. If it is nil, the Conn makes a
	// software RNIC of its own, which asks for CRCs.
	Provider rdmacm.Provider
	// RDMAVersion is the version of RPC-over-RDMA. If it is RDMAVersion2 and the server does not accept
	// that, Dial fails with rdma.ErrVersion2.
	RDMAVersion RDMAVersion
	// Cred goes with each call; the zero value is AUTH_NONE. See Self.
	Cred rpc.AuthBytes
	// Security, unless nil, replaces Cred: it protects calls by RPCSEC_GSS, except those of
	// MOUNT. See Kerberos.
	Security *Security
	// Depth is the number of calls wanted in progress at a time: the credits that the Conn
	// requests over RDMA. 0 means 128.
	Depth int
	// Inline is the largest message without chunks over RDMA, in bytes; 0
	// means 4096.
	Inline int
	// Reconnect makes a Conn over RDMA replace a lost connection, and send unanswered calls
	// again. A Conn over TCP ignores it: its unanswered calls end with rpc.ErrCallLost.
	Reconnect bool
	// Calls serves the calls that the server makes on the connection. If it is nil, they are refused
	// with PROG_UNAVAIL. A Session has its own.
	Calls *Calls
}

func (t Target) port() int {
	if t.Port == 0 {
		return t.Transport.Port()
	}
	return t.Port
}

// Flavor returns the flavor of the calls: that of Security if it is set, and otherwise that of
// Cred.
func (t Target) Flavor() Flavor {
	if t.Security != nil {
		return flavorOf(t.Security.Service)
	}
	return Flavor(t.Cred.Flavor)
}

// Address returns host and port as one string.
func (t Target) Address() string { return net.JoinHostPort(t.Host, strconv.Itoa(t.port())) }

// ErrAddress means that a text does not name a host, a port or an export.
var ErrAddress = errors.New("client: not an address")

// SplitHostPort splits HOST, HOST:PORT, [IPV6], [IPV6]:PORT or a bare IPv6 address. port is 0 if
// the text has none. An error wraps ErrAddress.
func SplitHostPort(s string) (host string, port int, err error) {
	if a, err := netip.ParseAddr(s); err == nil {
		return a.String(), 0, nil
	}
	host, digits, err := net.SplitHostPort(s)
	if err == nil {
		if port, err = strconv.Atoi(digits); err != nil || port < 1 || port > 65535 {
			return "", 0, fmt.Errorf("%w: %q is no port", ErrAddress, digits)
		}
	} else if host, _, err = net.SplitHostPort(s + ":0"); err != nil { // s is no host without a port either
		return "", 0, fmt.Errorf("%w: %w", ErrAddress, err)
	}
	if host == "" {
		return "", 0, fmt.Errorf("%w: %q names no host", ErrAddress, s)
	}
	return host, port, nil
}

// SplitExport splits HOST:/path, as mount(8) writes it, or HOST:PORT:/path. The host may be an IPv6 address in
// brackets. port is 0 if the text has none. An error wraps ErrAddress.
func SplitExport(s string) (host string, port int, path string, err error) {
	at, path, found := strings.Cut(s, ":/")
	if !found {
		return "", 0, "", fmt.Errorf("%w: %q is not HOST:/export", ErrAddress, s)
	}
	host, port, err = SplitHostPort(at)
	return host, port, "/" + path, err
}

// resolve returns the addresses of a host, in the order in which to try them.
func resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i] = all[i].Unmap()
	}
	return all, nil
}

// Self returns the AUTH_SYS credential of this process. If the process has more
// supplementary groups than AUTH_SYS can carry, the credential has the first ones.
func Self() rpc.AuthBytes { return Identity(uint32(os.Geteuid()), uint32(os.Getegid())) }

// Identity returns the AUTH_SYS credential of a user and group. If uid is this process's
// own, the credential has the process's supplementary groups as well.
func Identity(uid, gid uint32) rpc.AuthBytes {
	var groups []int
	if uid == uint32(os.Geteuid()) {
		groups, _ = os.Getgroups() // the credential is valid without groups, too
	}
	name, _ := os.Hostname() // servers ignore it
	return identityOf(name, uid, gid, groups)
}

// identityOf leaves out what AUTH_SYS has no room for (RFC 5531 §14, appendix A): the end of a long name,
// and all but the first rpc.MaxGroups groups.
func identityOf(name string, uid, gid uint32, all []int) rpc.AuthBytes {
	var groups []uint32
	for _, g := range all[:min(len(all), rpc.MaxGroups)] {
		groups = append(groups, uint32(g))
	}
	cred, err := rpc.AuthSysCred(uint32(os.Getpid()), name[:min(len(name), rpc.MaxMachineName)], uid, gid, groups)
	if err != nil {
		panic("client: " + err.Error()) // this cannot happen: the code above keeps to the limits
	}
	return cred
}
