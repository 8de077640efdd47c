// Package rpcbind registers services with the machine's rpcbind, and asks others'
// for addresses: the client of RFC 1833, versions 4 and 3, and the universal
// addresses of RFC 5665.
//
// It reaches rpcbind by a Dialer that is handed in. It does not serve the
// protocol, and does not know version 2 (the port mapper), which has no names
// for transports other than TCP and UDP.
package rpcbind
