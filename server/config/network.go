package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// parseClients parses networks and addresses. They are separated by ',' or ';'.
func parseClients(value string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, s := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ';' }) {
		p, err := ParseNetwork(strings.TrimSpace(s))
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		return nil, errors.New("no network is given: write CIDR such as 192.0.2.0/24")
	}
	return all, nil
}

// ParseNetwork parses a network in CIDR notation, or an address. The error says what to write instead.
func ParseNetwork(s string) (p netip.Prefix, err error) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		p = netip.PrefixFrom(a, a.BitLen())
	} else if p, err = netip.ParsePrefix(s); err != nil {
		return p, notNetwork(s)
	}
	switch {
	case p.Addr().Is4In6():
		return p, fmt.Errorf("%q is the IPv6 form of an IPv4 network: write %s", s, netip.PrefixFrom(p.Addr().Unmap(), max(p.Bits()-96, 0)).Masked())
	case p != p.Masked():
		return p, fmt.Errorf("%q has bits beyond its length: write %s", s, p.Masked())
	}
	return p, nil
}

// maskedNetwork parses an address with a length in bits, or with a mask (192.0.2.7/255.255.255.0). Bits beyond the
// length are ignored, as exports(5) does.
func maskedNetwork(s string) (p netip.Prefix, ok bool) {
	address, length, _ := strings.Cut(s, "/")
	a, err := netip.ParseAddr(address)
	if err != nil {
		return p, false
	}
	bits, err := strconv.Atoi(length)
	if mask, other := netip.ParseAddr(length); other == nil && mask.Is4() {
		ones, all := net.IPMask(mask.AsSlice()).Size()
		if all == 0 {
			return p, false // the ones of the mask are not together
		}
		bits, err = ones, nil
	}
	if err != nil || bits < 0 || bits > a.BitLen() {
		return p, false
	}
	return netip.PrefixFrom(a, bits).Masked(), true
}

// leadingZeros matches zeros before a number.
var leadingZeros = regexp.MustCompile(`\b0+(\d)`)

// notNetwork returns the error for a word that is no network, with the network that was probably meant.
func notNetwork(s string) error {
	address, length, _ := strings.Cut(s, "/")
	meant := ""
	switch a, err := netip.ParseAddr(strings.Trim(address, "[]")); {
	case err == nil && a.Zone() != "":
		return fmt.Errorf("%q: an address of a client has no interface: write %s", s, a.WithZone(""))
	case err == nil && strings.HasPrefix(address, "["):
		meant = strings.NewReplacer("[", "", "]", "").Replace(s)
	case err == nil:
		if p, ok := maskedNetwork(s); ok {
			meant = p.String()
		} else if n, err := strconv.Atoi(length); err == nil && n > a.BitLen() {
			return fmt.Errorf("%q: the length of a network is %d at most: write %s/%d for the one address", s, a.BitLen(), a, a.BitLen())
		}
	case s == "*":
		return fmt.Errorf("%q: every client is served without this option: leave it out, or name networks such as 192.0.2.0/24", s)
	case strings.Contains(address, "*"):
		if parts := strings.Split(address, "."); len(parts) <= 4 && strings.Trim(address, "0123456789.*") == "" {
			bits := 8 * slices.Index(parts, "*")
			meant = strings.ReplaceAll(address, "*", "0") + strings.Repeat(".0", 4-len(parts)) + "/" + strconv.Itoa(bits)
		}
	case leadingZeros.MatchString(address):
		meant = leadingZeros.ReplaceAllString(address, "$1") + strings.TrimPrefix(s, address)
	}
	if p, err := netip.ParsePrefix(meant); err == nil {
		return fmt.Errorf("%q is not a network in CIDR notation: write %s", s, p.Masked())
	} else if a, err := netip.ParseAddr(meant); err == nil {
		return fmt.Errorf("%q is not an address: write %s", s, a)
	}
	return fmt.Errorf("%q is not a network: write CIDR such as 192.0.2.0/24 or 2001:db8::/32, several separated by ','; host names are not looked up", s)
}
