// Package rpcbind implements both sides of RFC 1833, and the universal addresses of RFC 5665. A
// Client registers services with rpcbind, in versions 4 and 3, and asks for addresses, also in
// version 2. A Server answers such questions for a fixed list of services.
//
// A Client connects by the Dialer of its user. It does not register in version 2 (the port
// mapper), which knows no transports except TCP and UDP.
package rpcbind
