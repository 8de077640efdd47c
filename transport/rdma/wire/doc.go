// Package wire is the codec of RPC-over-RDMA: what stands in a Send before the RPC
// message (RFC 8166 §4), and the private data of a connection (RFC 8797 §4). It is
// functions over bytes: nothing is kept, allocated or looked at but the message,
// and what is decoded aliases it. A file holds one unit.
//
// All versions share prefix.go, the layout of ERR_VERS in rdma_error.go, and
// private_data.go. The rest is version 1: header.go, its three lists, and
// segment.go. The headers of another version have types and files of their own
// beside these, chosen by Prefix.Version. There is none yet.
package wire
