// Package clientaddr says which addresses count as one client, and which clients as one site. Every
// limit per client address in this module uses it. So a peer cannot avoid a limit by means of
// another of its own addresses.
package clientaddr

import "net/netip"

// nat64 is the well-known prefix of the addresses with which a translator presents IPv4 clients to
// an IPv6 server (RFC 6052 §2.1).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

const (
	// clientPrefix is the length of the prefix that counts as one IPv6 client: a host chooses
	// freely among the addresses of its /64 (RFC 7934 §3).
	clientPrefix = 64
	// sitePrefix is the length of the prefix that counts as one IPv6 site: a site may have 65,536
	// prefixes of /64 (RFC 6177).
	sitePrefix = 48
	// linkLocalPrefix is the length of the prefix that all link-local addresses have (RFC 4291 §2.5.6).
	linkLocalPrefix = 64
	// sitePrefix4 is the length of the prefix that counts as one IPv4 site: a host may have many
	// addresses of its network. Networks for the hosts of one owner are seldom longer.
	sitePrefix4 = 24
)

// Of returns the client address as which a peer is counted; a is the peer's address. An IPv4
// address counts by itself, also if it is mapped into IPv6. An IPv6 address counts as its /64. Each
// link-local address counts by itself, because all have the same /64. So does each address of a
// NAT64 translator, because its /64 holds all of IPv4.
func Of(a netip.Addr) netip.Addr {
	if a = a.Unmap(); !byPrefix(a) {
		return a
	}
	return prefix(a.WithZone(""), clientPrefix)
}

// Network returns the addresses of which Of returns the same as of a: one address, or the /64 of an IPv6 client.
func Network(a netip.Addr) netip.Prefix {
	of := Of(a)
	if byPrefix(a.Unmap()) {
		return netip.PrefixFrom(of, clientPrefix)
	}
	return netip.PrefixFrom(of.WithZone(""), of.BitLen())
}

// Site returns the site of a client; client is the result of Of. The site of an IPv6 client is its
// /48, and that of an IPv4 client its /24, also behind a NAT64 translator. All link-local addresses
// of one link are one site, because a host chooses freely among them.
func Site(client netip.Addr) netip.Addr {
	switch {
	case client.Is4():
		return prefix(client, sitePrefix4)
	case nat64.Contains(client):
		return prefix(client, nat64.Bits()+sitePrefix4)
	case client.Is6() && client.IsLinkLocalUnicast():
		return prefix(client.WithZone(""), linkLocalPrefix).WithZone(client.Zone())
	}
	return prefix(client, sitePrefix)
}

// byPrefix reports whether a is counted by its prefix, together with other addresses.
func byPrefix(a netip.Addr) bool {
	return a.Is6() && !a.IsLinkLocalUnicast() && !nat64.Contains(a)
}

func prefix(a netip.Addr, bits int) netip.Addr {
	p, err := a.Prefix(bits)
	if err != nil {
		return a
	}
	return p.Addr()
}
