// Package rping proves the software RNIC (rdmacm/iwarp) against Linux's siw and a
// program that nobody here wrote, rping of rdma-core: RDMA Reads, RDMA Writes and
// Sends between them, in both roles of the connection, without anything of NFS.
package rping
