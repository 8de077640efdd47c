package server

import (
	"encoding/hex"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/server/admin"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A chosen is an admin.Choice whose names were found.
type chosen struct {
	clients map[*state.Client]bool // nil means all
	export  uint32                 // 0 means all
	// files has the handle of the chosen file in each file system that shows it (its domain), or under nil in all. If it is
	// nil, all files are chosen.
	files map[any]vfs.Handle
}

// choose finds what a choice names. It refuses what is not there and, if taking is true, an address that stands for a
// whole network: what is taken from the clients there, they do not get back.
func (a *administration) choose(c *admin.Choice, taking bool) (is *chosen, err error) {
	is = &chosen{}
	if c.Client != "" {
		if is.clients, err = a.clientsNamed(c.Client, taking); err != nil {
			return nil, err
		}
	}
	if c.Export != "" {
		for _, e := range a.exports.All() {
			if e.Name == c.Export {
				is.export = e.ID
			}
		}
		if is.export == 0 {
			return nil, admin.Refuse("there is no export %q: 'nfsrdmad exports' lists them", c.Export)
		}
	}
	if c.File != "" {
		if is.files, err = a.filesNamed(c.File); err != nil {
			return nil, err
		}
	}
	return is, nil
}

// clientsNamed returns the client with this ID, or those at this address or in this network.
func (a *administration) clientsNamed(name string, taking bool) (map[*state.Client]bool, error) {
	var network netip.Prefix
	if p, err := netip.ParsePrefix(name); err == nil {
		network = p.Masked()
	} else if at, err := netip.ParseAddr(name); err == nil {
		network = clientaddr.Network(at)
		if taking && !network.IsSingleIP() {
			return nil, admin.Refuse("clients of IPv6 are told apart by their networks alone: name %s for all clients there, or one of them by its ID, which 'nfsrdmad clients' shows", network)
		}
	}
	all := make(map[*state.Client]bool)
	for _, c := range a.clients.AllClients() {
		if a.nameOfClient(c) == name || network.IsValid() && clientaddr.Network(c.Address()) == network {
			all[c] = true
		}
	}
	if len(all) == 0 {
		return nil, admin.Refuse("there is no client %q: 'nfsrdmad clients' lists them, by ID and address", name)
	}
	return all, nil
}

// filesNamed returns chosen.files for a path, for one in the quotes of plainPath, or for the digits of a vfs.Handle.
func (a *administration) filesNamed(name string) (map[any]vfs.Handle, error) {
	if b, err := hex.DecodeString(name); err == nil {
		if h, ok := vfs.MakeHandle(b); ok {
			return map[any]vfs.Handle{nil: h}, nil
		}
	}
	path := name
	if strings.HasPrefix(name, `"`) {
		var err error
		if path, err = strconv.Unquote(name); err != nil {
			return nil, admin.Refuse("%s is no file: it begins with a quote, but is no quoted path", name)
		}
	}
	if !filepath.IsAbs(path) {
		return nil, admin.Refuse("%q is no file: name an absolute path, or the digits that 'nfsrdmad opens --json' shows", name)
	}
	domains := make(map[any]bool)
	for _, e := range a.exports.All() {
		domains[state.DomainOf(e.FS)] = true
	}
	for e := range a.clients.Opens() { // what clients hold may be in mounts, and in exports that have ended
		domains[e.Key.Domain] = true
	}
	for e := range a.clients.Locks() {
		domains[e.Key.Domain] = true
	}
	all, err := handlesAt(path, domains)
	switch {
	case err != nil:
		return nil, admin.Refuse("%q cannot be found: %v; a file that was removed is named by the digits that 'nfsrdmad opens --json' shows", path, err)
	case len(all) == 0:
		return nil, admin.Refuse("%q is in no file system in which clients hold anything, nor in that of an export", path)
	}
	return all, nil
}

// handlesAt returns the handles of a path in those of the file systems that have it.
func handlesAt(path string, domains map[any]bool) (map[any]vfs.Handle, error) {
	all := make(map[any]vfs.Handle)
	for domain := range domains {
		fs, ok := domain.(vfs.Pathed)
		if !ok {
			continue
		}
		h, ok, err := fs.HandleAt(path)
		if err != nil {
			return nil, err
		}
		if ok {
			all[domain] = h
		}
	}
	return all, nil
}

// has reports whether the choice includes what a client has in a file.
func (c *chosen) has(of *state.Client, key *state.FileKey, export uint32) bool {
	return (c.clients == nil || c.clients[of]) && (c.export == 0 || c.export == export) && (c.files == nil || c.hasFile(key))
}

func (c *chosen) hasFile(key *state.FileKey) bool {
	h, ok := c.files[key.Domain]
	if !ok {
		h, ok = c.files[nil]
	}
	return ok && h == key.Handle
}
