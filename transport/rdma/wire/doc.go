// Package wire is the codec of RPC-over-RDMA: the bytes before the RPC message in a Send
// (RFC 8166 §4), and the private data of a connection (RFC 8797 §4). It consists of
// functions over bytes: they keep no state, allocate nothing and look at nothing but the
// message. Decoded values alias the message. Each file holds one unit.
//
// All versions share prefix.go, the layout of ERR_VERS in rdma_error.go, and
// private_data.go. The rest is version 1: header.go, its three lists, and segment.go. A
// further version would add types and files of its own beside these, selected by
// Prefix.Version.
package wire
