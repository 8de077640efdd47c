// Package wire is the codec of RPC-over-RDMA: the bytes before the RPC message in a Send (RFC 8166
// §4), and the private data of a connection (RFC 8797 §4). Its functions keep no state, allocate
// nothing and read nothing but the message. Decoded values alias the message.
//
// All versions have the Prefix, the layout of ERR_VERS (rdma_error.go) and the private data in
// common. The rest is for version 1: the header (header.go) and its three lists (chunks.go). A
// further version would add types and files of its own, selected by Prefix.Version.
package wire
