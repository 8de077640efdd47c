// Package wire is the codec of RPC-over-RDMA: the bytes before the RPC message in a Send (RFC 8166 §4;
// for version 2 draft-ietf-nfsv4-rpcrdma-version-two-07 §6), and the private data of a connection (RFC
// 8797 §4). Its functions allocate nothing and read nothing but the message. Decoded values alias the
// message. Only a token of host authentication (Properties.HostAuth) is a copy.
//
// All versions have the Prefix, the layout of ERR_VERS (rdma_error.go), the elements of chunk lists
// (chunks.go) and the private data in common. Version 1 has one header for all messages (header.go). In
// version 2 each header type (header_type.go) has its own: calls (call2.go), replies (reply2.go), parts of
// either (part2.go), transport properties (properties.go) and errors (rdma2_error.go); the order of its
// messages is a rule of its own (sequence.go). Names that version 1 has too end in 2. In comments of these files, a section without a document is one of the draft.
package wire
