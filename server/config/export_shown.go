package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
)

// String returns the options in the form that UnmarshalText reads: all that have an effect, the defaults
// included. Without clients= the export serves every client.
func (o *ExportOptions) String() string { return OptionsOf(o.applied()) }

// Open reports whether every machine that reaches the server may change files of an export with these
// options.
func (o *ExportOptions) Open() bool { return OpenToAll(o.applied()) }

func (o *ExportOptions) applied() *export.Export {
	e := new(export.Export)
	o.Apply(e)
	return e
}

// OptionsOf returns the options of an export in the form that ExportOptions.UnmarshalText reads: all that have
// an effect, the defaults included.
func OptionsOf(e *export.Export) string {
	words := []string{either(e.ReadOnly, "ro", "rw"), either(e.Async, "async", "sync"),
		[...]string{export.RootSquash: "root_squash", export.NoSquash: "no_root_squash", export.AllSquash: "all_squash"}[e.Squash],
		either(e.Secure, "secure", "insecure")}
	add := func(given bool, word string) {
		if given {
			words = append(words, word)
		}
	}
	add(len(e.Security) > 0, "sec="+join(e.Security, ":", export.Security.String))
	for _, n := range e.Networks {
		add(true, "sec="+join(n.Security, ":", export.Security.String)+"@"+n.Network.String())
	}
	add(e.AnonUID != export.Nobody, fmt.Sprintf("anonuid=%d", e.AnonUID))
	add(e.AnonGID != export.Nobody, fmt.Sprintf("anongid=%d", e.AnonGID))
	add(e.Root, "fsid=0")
	add(e.ManageGIDs, "manage_gids")
	add(e.RequireAccount, "require_account")
	add(e.Nested, "nested")
	add(e.CrossMount, "crossmnt")
	add(e.NoLocks, "locks=none")
	add(e.UTF8, "utf8")
	add(len(e.Clients) > 0, "clients="+join(e.Clients, ",", netip.Prefix.String))
	return strings.Join(words, ",")
}

// OpenToAll reports whether every machine that reaches the server may change files of an export.
func OpenToAll(e *export.Export) bool {
	everybody := len(e.Clients) == 0 || slices.ContainsFunc(e.Clients, func(p netip.Prefix) bool { return p.Bits() == 0 })
	unproven := len(e.Security) == 0 || slices.Contains(e.Security, export.Sys)
	return everybody && unproven && !e.ReadOnly
}

func either(is bool, word, other string) string {
	if is {
		return word
	}
	return other
}

func join[T any](all []T, by string, text func(T) string) string {
	words := make([]string, len(all))
	for i, e := range all {
		words[i] = text(e)
	}
	return strings.Join(words, by)
}
