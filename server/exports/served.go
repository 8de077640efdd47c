package exports

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
)

// OptionsOf returns the options of an export as the configuration has them, those that are the default too.
func OptionsOf(e *export.Export) string {
	words := []string{either(e.ReadOnly, "ro", "rw"), either(e.Async, "async", "sync"),
		[]string{"root_squash", "no_root_squash", "all_squash"}[e.Squash], either(e.Secure, "secure", "insecure")}
	add := func(given bool, word string) {
		if given {
			words = append(words, word)
		}
	}
	add(e.AnonUID != export.Nobody, fmt.Sprintf("anonuid=%d", e.AnonUID))
	add(e.AnonGID != export.Nobody, fmt.Sprintf("anongid=%d", e.AnonGID))
	add(e.ManageGIDs, "manage_gids")
	add(len(e.Clients) > 0, "clients="+join(e.Clients, ";", netip.Prefix.String))
	add(len(e.Security) > 0, "sec="+flavors(e.Security))
	for _, n := range e.Networks {
		add(true, "sec="+flavors(n.Security)+"@"+n.Network.String())
	}
	add(e.RequireAccount, "require_account")
	add(e.Root, "fsid=0")
	add(e.Nested, "nested")
	add(e.CrossMount, "crossmnt")
	add(e.UTF8, "utf8")
	return strings.Join(words, ",")
}

func either(is bool, word, other string) string {
	if is {
		return word
	}
	return other
}

func flavors(all []export.Security) string { return join(all, ":", export.Security.String) }

func join[T any](all []T, by string, text func(T) string) string {
	words := make([]string, len(all))
	for i, e := range all {
		words[i] = text(e)
	}
	return strings.Join(words, by)
}

// A Served is an export of the configuration, as it is served or not.
type Served struct {
	Name, Path string
	// Export is what is served; nil if nothing is.
	Export *export.Export
	// Fault says why the directory cannot be opened, or is "". If there is an Export too, its directory is the one of before.
	Fault string
}

// Served returns all exports of the configuration, in its order.
func (o *Offer) Served() (all []Served) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, w := range o.wanted {
		s := Served{Name: w.name, Path: w.Path.Path, Export: w.now}
		if w.err != nil {
			s.Fault = w.err.Error()
		}
		all = append(all, s)
	}
	return all
}
