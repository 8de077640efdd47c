package server

import (
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/server/admin"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs40"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs41"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// Clients implements admin.Daemon. The clients that have state come first. An address has an entry for itself if it uses
// NFSv3, or has no client.
func (a *administration) Clients() iter.Seq[*admin.Client] {
	return func(yield func(*admin.Client) bool) {
		peers := a.peers()
		for e := range a.clients.Clients() {
			c := a.describeClient(e)
			if p := peers[clientaddr.Of(e.Client.Address())]; p != nil {
				p.addTo(c)
			}
			if !yield(c) {
				return
			}
		}
		for _, at := range slices.SortedFunc(maps.Keys(peers), netip.Addr.Compare) {
			if p := peers[at]; (!p.shown || p.version3) && !yield(p.describe()) {
				return
			}
		}
	}
}

func (a *administration) describeClient(e *state.ClientEntry) *admin.Client {
	c := &admin.Client{
		ID: a.nameOfClient(e.Client), Kind: kindOfClient(e.Client), Address: e.Client.Address().String(), Name: clientsName(e.Client), Principal: plain(e.Client.Principal),
		Confirmed: e.Confirmed, Seen: time.Now().Add(-e.Silent), Expired: e.Expired, Sessions: e.Sessions, Running: e.Running,
		Opens: e.Opens, Locks: e.Locks, Ranges: e.Ranges, Waiting: e.Waiting, Revoked: e.Revoked, Memory: e.Memory,
	}
	if e.Client.Kind == state.Host {
		c.Principal = "" // state keeps the addresses of a host there
	}
	describeCallbacks(c, e.Client)
	return c
}

// describeCallbacks adds what the protocols know of a client of NFSv4: how it introduced itself, and whether it can be
// called back.
func describeCallbacks(c *admin.Client, of *state.Client) {
	var at netip.AddrPort
	wanted, up, minor := false, false, 0
	if a, ok := nfs41.AboutOf(of); ok {
		c.Implementation, c.Domain = plain(a.Implementation), plain(a.Domain)
		at, wanted, up, minor = a.Back, a.Wanted, a.Reached, int(a.Minor)
	} else if at, up, ok = nfs40.CallbackTo(of); ok {
		wanted = at.IsValid()
	} else {
		return
	}
	c.Minor = &minor
	switch {
	case !wanted:
		c.Callbacks = "none"
		return
	case up:
		c.Callbacks = "up"
	default:
		c.Callbacks = "down"
	}
	if at.IsValid() {
		c.CallbackAddress = netip.AddrPortFrom(at.Addr().Unmap(), at.Port()).String()
	}
}

func kindOfClient(c *state.Client) string {
	switch c.Kind {
	case state.Minor0:
		return "4.0"
	case state.Host:
		return "nlm"
	}
	return "4.1+"
}

// clientsName returns the client's own name for itself. A host's name begins with its address, which has its own place.
func clientsName(c *state.Client) string {
	if c.Kind == state.Host {
		_, name, _ := strings.Cut(c.Owner, " ")
		return plain(name)
	}
	return plain(c.Owner)
}
