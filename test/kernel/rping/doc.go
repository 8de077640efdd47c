// Package rping tests the software RNIC (rdmacm/iwarp) against Linux's siw and a program of
// another project, rping of rdma-core: RDMA Reads, RDMA Writes and Sends, in both roles of the
// connection, without NFS.
package rping
