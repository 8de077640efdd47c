// Package client is what speaks to an NFS server: connections over TCP and over
// RPC-over-RDMA behind one type, the procedures of NFS version 3 (RFC 1813 §3)
// and MOUNT version 3 (appendix I) as Go methods, and rpcbind's look-ups. Many
// calls may be under way on a connection at a time; what READ returns is placed
// in the caller's memory, and what WRITE takes is sent from there.
//
// On it stand the tools: Probe tells what a server speaks, Bench measures one,
// Relay carries calls of clients that know only TCP to a server over RDMA.
//
// It keeps no cache and no state of files: that is for a file system on top.
package client
