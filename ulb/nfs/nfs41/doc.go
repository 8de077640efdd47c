// Package nfs41 is the part of NFSv4 that only minor versions 1 and 2 have: how a client
// makes itself known, the sessions that carry its requests, and the channel on which the
// server calls the client back (RFC 8881 §2.10, §18.33 to §18.37, §18.46 to §18.51; RFC 7862
// changes none of it).
//
// A session belongs to a client, not to a connection: its requests may come over several
// connections at once, of either transport. Each slot of a session remembers its latest
// request, so that no request is executed twice. SEQUENCE completes all checks before it
// changes a slot.
//
// Package state keeps the list of clients and their leases.
package nfs41
