// Package rdmacm is the seam between RDMA transports and the devices that
// carry them: listening and connecting with private data, a reliable connected
// queue pair, and memory that the device may use. It is one for the software
// RNIC (rdmacm/iwarp), for librdmacm and libibverbs, for datagram providers and
// for the fake that fails on demand (rdmacm/rdmatest), which also holds the
// conformance suite that each of them passes.
//
// The seam is completion-based. Nothing in it blocks: work is posted in chains
// and comes back by the chain's Done; messages are pushed to a Handler. Memory
// that was handed to a Conn goes back by Done only, never by Close.
//
// Terms are those of RFC 5040 and of the verbs: Send, RDMA Write, RDMA Read,
// steering tag (STag), tagged offset, inbound and outbound read depth (IRD,
// ORD). The package knows nothing of RPC.
package rdmacm
