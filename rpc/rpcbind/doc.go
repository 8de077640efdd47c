// Package rpcbind is both sides of RFC 1833, and the universal addresses of RFC 5665.
// A Client registers services with rpcbind, in versions 4 and 3, and asks it for
// addresses, in version 2 as well. A Server answers such questions with services that
// are known beforehand.
//
// A Client reaches rpcbind by a Dialer that its user hands in. It does not register
// with version 2 (the port mapper), which has no names for transports other than TCP
// and UDP.
package rpcbind
