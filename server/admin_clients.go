package server

import (
	"iter"
	"strings"
	"time"

	"github.com/nfsrdmad/nfsrdmad/server/admin"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// Clients implements admin.Daemon.
func (a *administration) Clients() iter.Seq[*admin.Client] {
	return func(yield func(*admin.Client) bool) {
		for e := range a.clients.Clients() {
			if !yield(a.describeClient(e)) {
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
	return c
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
