// Package nfs41 is what NFS minor versions 1 and 2 have of their own: how a client makes
// itself known, the sessions that its requests come in, and the channel that the server
// calls it back on (RFC 8881 §2.10, §18.33 to §18.37, §18.46 to §18.51; RFC 7862 changes
// nothing of it).
//
// A session belongs to a client, and not to a connection: its requests may come over
// several connections at once, of either transport. A slot of it remembers the latest
// request, so that no request is executed twice. SEQUENCE checks everything before it
// changes a slot.
//
// Which clients there are, and when their leases end, is package state's business.
package nfs41
