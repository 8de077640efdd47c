// Package rpcbind implements both sides of RFC 1833, and the universal addresses of RFC 5665. A
// Client registers services at rpcbind with version 4 or 3 of the protocol, and looks up the
// addresses of services with version 4, 3 or 2. A Server answers such look-ups for a fixed list of
// services.
//
// A Client connects with the rpc.Dialer that its caller provides. It does not register services
// with version 2 (the port mapper), which supports only TCP and UDP.
package rpcbind
