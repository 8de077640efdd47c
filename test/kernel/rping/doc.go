// Package rping proves the software RNIC (rdmacm/iwarp) against Linux's siw and a
// program of another project, rping of rdma-core: RDMA Reads, RDMA Writes and
// Sends between them, in both roles of the connection, without anything of NFS.
package rping
