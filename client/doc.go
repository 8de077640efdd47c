// Package client speaks to an NFS server. A Conn is a connection over TCP or RPC-over-RDMA. NFS3
// has the procedures of NFS version 3 (RFC 1813 §3) as Go methods on any rpc.Caller, and Mount3
// those of MOUNT version 3 (RFC 1813 appendix I). A Session is a session of NFS version 4.1 or
// 4.2 (RFC 8881 §2.10), over one connection or several, and NFS4 has its usual requests. Many
// calls may be in progress on a connection at a time. The data of READ is placed in the caller's
// memory, and the data of WRITE is sent from there.
//
// Three tools use it: client/probe shows what a server supports, client/bench measures a server,
// client/relay carries calls of clients that support only TCP to a server over RDMA.
//
// The package caches nothing. It does not record opens and locks, so it cannot reclaim them: that
// is the task of a file system on top of it. A Session renews its lease, and passes on the
// server's callbacks.
package client
