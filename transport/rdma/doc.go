// Package rdma carries ONC RPC over RDMA: RPC-over-RDMA version 1 (RFC 8166, with
// the CM private data of RFC 8797 and the reverse direction of RFC 8167), in
// both roles. A Responder turns calls that arrive, their chunks included, into
// rpc.Calls and sends the replies back by the way that each call offers; a
// Requester (Client) makes calls with payload placed directly.
//
// A message is a Transport stream, the header of this package, followed in the
// same Send by a Payload stream, the RPC message; or the Payload stream, or parts
// of it, are chunks that the Responder moves by RDMA Read and RDMA Write. The
// codec is a file a unit: header.go, read_list.go, write_list.go,
// reply_chunk.go, rdma_error.go, private_data.go. What all versions of the
// protocol share is in prefix.go.
//
// The package knows no upper layer: what may be placed directly and how large
// things get comes from rpc.Binding. It knows no device: rdmacm is the seam.
// It does not speak version 2, whose header types would get files of their own
// beside these.
package rdma
