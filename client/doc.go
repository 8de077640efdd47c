// Package client speaks to an NFS server: connections over TCP and over
// RPC-over-RDMA behind one type (Conn), and the procedures of NFS version 3 (NFS3,
// RFC 1813 §3) and of MOUNT version 3 (Mount3, RFC 1813 appendix I) as Go methods
// on any rpc.Caller. A Session is one of NFS version 4.1 or 4.2 (RFC 8881 §2.10), over
// one connection or several, and NFS4 are its usual requests. Many calls may be under
// way on a connection at a time. What READ returns is placed in the caller's memory,
// and what WRITE takes is sent from there.
//
// Three tools stand on it: client/probe tells what a server speaks, client/bench
// measures a server, client/relay carries calls of clients that know only TCP to a
// server over RDMA.
//
// The package keeps no cache and no state of files, and reclaims none: that is for a
// file system on top of it. A Session keeps its lease, and hands on what the server
// asks for by callbacks.
package client
