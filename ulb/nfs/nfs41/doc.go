// Package nfs41 is the part of NFSv4 that only minor versions 1 and 2 have: the registration of clients by
// EXCHANGE_ID, the sessions that carry their requests, and the backchannel, on which the server calls a
// client (RFC 8881 §2.10, §18.33 to §18.37, §18.46 to §18.51; RFC 7862 changes none of it).
//
// A session belongs to a client, not to a connection: its requests may come over several
// connections at once, by TCP or RDMA. Each slot of a session remembers its latest request, so that
// no request is executed twice. SEQUENCE completes all checks before it changes a slot.
//
// Package state keeps the list of clients and their leases.
package nfs41
