package config

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
)

// String returns the options in the form that UnmarshalText reads: all that have an effect, the defaults
// included. Without clients= the export serves every client.
func (o *ExportOptions) String() string {
	e := new(export.Export)
	o.Apply(e)
	either := func(on bool, yes, no string) string {
		if on {
			return yes
		}
		return no
	}
	words := []string{either(e.ReadOnly, "ro", "rw"), either(e.Async, "async", "sync"),
		[...]string{export.RootSquash: "root_squash", export.NoSquash: "no_root_squash", export.AllSquash: "all_squash"}[e.Squash],
		either(e.Secure, "secure", "insecure"), "sec=" + flavors(e.Security)}
	for _, n := range e.Networks {
		words = append(words, fmt.Sprintf("sec=%s@%s", flavors(n.Security), n.Network))
	}
	for _, id := range []struct {
		name  string
		value uint32
	}{{"anonuid", e.AnonUID}, {"anongid", e.AnonGID}} {
		if id.value != export.Nobody {
			words = append(words, fmt.Sprintf("%s=%d", id.name, id.value))
		}
	}
	for _, flag := range []struct {
		on   bool
		name string
	}{{e.Root, "fsid=0"}, {e.ManageGIDs, "manage_gids"}, {e.RequireAccount, "require_account"}, {e.Nested, "nested"}, {e.CrossMount, "crossmnt"}, {e.UTF8, "utf8"}} {
		if flag.on {
			words = append(words, flag.name)
		}
	}
	if len(e.Clients) > 0 {
		words = append(words, "clients="+networks(e.Clients))
	}
	return strings.Join(words, ",")
}

// Open reports whether every machine that reaches the server may change files of an export with these
// options.
func (o *ExportOptions) Open() bool {
	e := new(export.Export)
	o.Apply(e)
	everybody := len(e.Clients) == 0
	for _, p := range e.Clients {
		everybody = everybody || p.Bits() == 0
	}
	for _, s := range e.Security {
		if s == export.Sys {
			return everybody && !e.ReadOnly
		}
	}
	return false
}

func flavors(all []export.Security) string {
	var words []string
	for _, s := range all {
		words = append(words, s.String())
	}
	return strings.Join(words, ":")
}

func networks(all []netip.Prefix) string {
	var words []string
	for _, p := range all {
		words = append(words, p.String())
	}
	return strings.Join(words, ",")
}
