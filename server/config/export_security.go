package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
)

// setSecurity applies the option sec to e. value has the flavors for all clients, or, with '@', for
// the clients of some networks.
func setSecurity(e *export.Export, value string) error {
	words, networks, some := strings.Cut(value, "@")
	all, err := parseSecurity(words)
	if err != nil {
		return fmt.Errorf("sec=%s: %w", value, err)
	}
	if !some {
		e.Security = all
		return nil
	}
	clients, err := parseClients(networks)
	if err != nil {
		return fmt.Errorf("sec=%s: after the '@', %w", value, err)
	}
	for _, n := range clients {
		e.Networks = append(e.Networks, export.NetworkSecurity{Network: n, Security: all})
	}
	return nil
}

// networksOf returns the networks in a value of the option sec, with the '@' before them.
func networksOf(value string) string {
	if i := strings.IndexByte(value, '@'); i >= 0 {
		return value[i:]
	}
	return ""
}

func parseSecurity(words string) (all []export.Security, err error) {
	for word := range strings.SplitSeq(words, ":") {
		i := slices.Index(export.SecurityNames, word)
		if i < 0 {
			return nil, fmt.Errorf("%q is no flavor: use some of %s, separated by ':'", word, strings.Join(export.SecurityNames, ", "))
		}
		if s := export.Securities[i]; !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all, nil
}

// checkNetworks checks the options sec that name networks. It rejects them if there is no option
// sec for all other clients (general is false), if two name the same network, or if the export
// serves no client of a network.
func checkNetworks(e *export.Export, general bool) error {
	for i, n := range e.Networks {
		switch same := func(other export.NetworkSecurity) bool { return other.Network == n.Network }; {
		case !general:
			return fmt.Errorf("sec=...@%s says nothing of other clients, which would be served with sec=sys: add sec=FLAVOR without a network for all of them", n.Network)
		case slices.ContainsFunc(e.Networks[:i], same):
			return fmt.Errorf("sec= is given twice for %s: leave one of them out", n.Network)
		case len(e.Clients) > 0 && !slices.ContainsFunc(e.Clients, func(p netip.Prefix) bool { return p.Overlaps(n.Network) }):
			return fmt.Errorf("sec=...@%s holds for no client: clients= has none of that network", n.Network)
		}
	}
	return nil
}
