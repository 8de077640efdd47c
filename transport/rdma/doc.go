// Package rdma carries ONC RPC over RDMA: RPC-over-RDMA version 1 (RFC 8166, with the CM private
// data of RFC 8797 and the reverse direction of RFC 8167), and version 2
// (draft-ietf-nfsv4-rpcrdma-version-two-07) if its configuration asks for it, in both roles that RFC 8166
// defines. A
// Responder turns received calls and their chunks into rpc.Calls, and sends each reply in the
// chunks that its call offers, or inline. A Requester (Client) makes calls whose payload is placed
// directly.
//
// A message is a Transport stream and a Payload stream. The Transport stream is the header; package
// wire is its codec. The Payload stream is the RPC message. It follows the header in the same Send;
// or all or parts of it are chunks, which the Responder moves by RDMA Read and RDMA Write.
// messages.go has the layer with which both roles receive and send whole messages. Only a framing
// (framing.go) knows the form of headers. fault.go has the table of all faults of a message, with this
// side's answer to each.
//
// The package depends on no upper layer: rpc.Binding says which items of a message may be placed
// directly, and how large they can be. It depends on no device: package rdmacm is the interface to
// all devices.
package rdma
