// Package rping tests the software RNIC (rdmacm/iwarp) against Linux's siw and rping, a program
// of rdma-core. It tests RDMA Reads, RDMA Writes and Sends, as the active and the passive side of
// the connection, without NFS.
package rping
