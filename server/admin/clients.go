package admin

import (
	"fmt"
	"strings"
	"time"
)

// A Client is one client of NFSv4, one host that locks files by NFSv3, or one address that uses NFSv3 or is only connected.
type Client struct {
	// ID identifies the client in requests to this process: 12 hexadecimal digits. It is not the client ID of the
	// protocol, which is a secret in minor version 0. It is "" for an address.
	ID string `json:"id"`
	// Kind is "4.0", "4.1+" (a client with sessions, of minor version 1 or 2), "nlm" (a host of NFSv3's lock manager), "3"
	// (an address that uses NFSv3) or "none" (an address that is connected, and does not use NFS).
	Kind string `json:"kind"`
	// Address is the client's address; of an IPv6 client, its /64 network. Name is its own name for itself.
	Address string `json:"address"`
	Name    string `json:"name"`
	// Connections counts the connections that exist from this address now (of IPv6, from its /64). Over has their
	// transports, Versions the versions of NFS and Flavors the security flavors that they were used for ("sys", "krb5p").
	Connections int      `json:"connections"`
	Over        []string `json:"transports,omitempty"`
	Versions    []string `json:"versions,omitempty"`
	Flavors     []string `json:"flavors,omitempty"`
	// Mounts are the paths that the address has mounted by NFSv3, as far as the daemon was told. A client that crashed has
	// not told of the end. Of kind "3".
	Mounts []string `json:"mounts,omitempty"`
	// Minor is the minor version of NFSv4 by which the client came; nil without one. Implementation is what its program says
	// it is, such as the kernel's version, and Domain who made that: "" if it did not say, as no client of 4.0 can.
	Minor          *int   `json:"minor_version,omitempty"`
	Implementation string `json:"implementation,omitempty"`
	Domain         string `json:"implementation_domain,omitempty"`
	// Callbacks is "up" if the daemon's latest call reached the client, or with sessions, if there is a connection for such
	// calls; "down" if not, though the client asked for them; and "none" if it did not ask. It is "" of what is no client of
	// NFSv4. CallbackAddress is where these calls go, with the port.
	Callbacks       string `json:"callbacks,omitempty"`
	CallbackAddress string `json:"callback_address,omitempty"`
	// Principal is the caller that made the client; of an address, the first caller of a connection by Kerberos.
	Principal string `json:"principal,omitempty"`
	// Confirmed is false for a client that has not finished its introduction.
	Confirmed bool `json:"confirmed"`
	// Seen is when the client last renewed its lease; of a host, when it last locked; of an address, when the last call
	// came, to 5 seconds, or zero. Expired is true if the lease has run out, so that others may get what the client holds.
	Seen    time.Time `json:"last_seen"`
	Expired bool      `json:"expired"`
	// The numbers of its sessions, calls in progress, open files, lock stateids, locked ranges, ranges for which it waits, and
	// stateids that were taken from it and that it has not freed.
	Sessions int `json:"sessions"`
	Running  int `json:"calls"`
	Opens    int `json:"opens"`
	Locks    int `json:"locks"`
	Ranges   int `json:"locked_ranges"`
	Waiting  int `json:"waiting_locks"`
	Revoked  int `json:"revoked"`
	// Memory is the memory for all this, in bytes.
	Memory int `json:"memory"`
}

func (*Client) heads() []any {
	return []any{"ID", "KIND", "ADDRESS", "CONNECTIONS", "VERSIONS", "SECURITY", "SEEN", "LEASE", "OPENS", "LOCKS", "WAITS", "REVOKED", "NAME", "MOUNTS"}
}

func (c *Client) row() []any {
	lease, id, seen, name, mounts := "valid", c.ID, "-", "-", "-"
	switch {
	case c.Kind == "nlm", c.ID == "":
		lease = "none"
	case !c.Confirmed:
		lease = "unconfirmed"
	case c.Expired:
		lease = "expired"
	}
	if id == "" {
		id = "-"
	}
	if !c.Seen.IsZero() {
		seen = since(c.Seen) + " ago"
	}
	if c.Name != "" || c.ID != "" {
		name = quoted(c.Name)
	}
	if len(c.Mounts) > 0 {
		mounts = quoted(strings.Join(c.Mounts, ","))
	}
	connections := strings.TrimSpace(fmt.Sprint(c.Connections, " ", strings.Join(c.Over, ",")))
	return []any{id, c.Kind, c.Address, connections, orDash(c.Versions), orDash(c.Flavors), seen, lease, c.Opens, c.Ranges, c.Waiting, c.Revoked, name, mounts}
}

func orDash(all []string) string {
	if len(all) == 0 {
		return "-"
	}
	return strings.Join(all, ",")
}
