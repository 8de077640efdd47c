// Package nfs is the upper-layer binding of NFS to RPC-over-RDMA (RFC 8267, RFC 5667): for each procedure,
// which items may be placed directly and how large arguments and results get. Servers and clients share it.
//
// This package has no server logic. Its subdirectories have, among others, the wire types
// (nfs3wire, nfs4wire, mount3wire), the exports and the rules for their clients (export), and
// the programs (nfs3, mount3, nfs4).
package nfs
