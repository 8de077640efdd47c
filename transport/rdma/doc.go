// Package rdma carries ONC RPC over RDMA: RPC-over-RDMA version 1 (RFC 8166, with
// the CM private data of RFC 8797 and the reverse direction of RFC 8167), in
// both roles. A Responder turns calls that arrive, their chunks included, into
// rpc.Calls and sends the replies back by the way that each call offers; a
// Requester (Client) makes calls with payload placed directly.
//
// A message is a Transport stream, the header that package wire has the codec of,
// followed in the same Send by a Payload stream, the RPC message; or the Payload
// stream, or parts of it, are chunks that the Responder moves by RDMA Read and RDMA
// Write. frame.go judges what arrives and sorts it into calls and replies; fault.go
// has the table of all that can be wrong with it, and what the peer gets for that.
//
// The package knows no upper layer: what may be placed directly and how large
// things get comes from rpc.Binding. It knows no device: rdmacm is the seam.
// It speaks version 1 only: frame.go chooses by version.
package rdma
