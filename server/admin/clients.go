package admin

import "time"

// A Client is one client of NFSv4, or one host that locks files by NFSv3.
type Client struct {
	// ID identifies the client in requests to this process: 12 hexadecimal digits. It is not the client ID of the
	// protocol, which is a secret in minor version 0.
	ID string `json:"id"`
	// Kind is "4.0", "4.1+" (a client with sessions, of minor version 1 or 2) or "nlm" (a host of NFSv3's lock manager).
	Kind string `json:"kind"`
	// Address is the client's address; of an IPv6 client, its /64 network. Name is its own name for itself.
	Address string `json:"address"`
	Name    string `json:"name"`
	// Principal is the caller that made the client.
	Principal string `json:"principal,omitempty"`
	// Confirmed is false for a client that has not finished its introduction.
	Confirmed bool `json:"confirmed"`
	// Seen is when the client last renewed its lease; of a host, when it last locked. Expired is true if the lease has
	// run out, so that others may get what the client holds.
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
	return []any{"ID", "KIND", "ADDRESS", "SEEN", "LEASE", "OPENS", "LOCKS", "WAITS", "REVOKED", "NAME"}
}

func (c *Client) row() []any {
	lease := "valid"
	switch {
	case c.Kind == "nlm":
		lease = "none"
	case !c.Confirmed:
		lease = "unconfirmed"
	case c.Expired:
		lease = "expired"
	}
	return []any{c.ID, c.Kind, c.Address, since(c.Seen) + " ago", lease, c.Opens, c.Ranges, c.Waiting, c.Revoked, quoted(c.Name)}
}
