// Package nfs is the upper-layer binding of NFS to RPC-over-RDMA (RFC 8267,
// RFC 5667): for each procedure, which items may be placed directly and how
// large arguments and results get. Servers and clients share it.
//
// Beside it stand the wire types (nfs3wire, mount3wire), who may see what
// (export), and the programs themselves (nfs3, mount3). This package has no
// server logic.
package nfs
