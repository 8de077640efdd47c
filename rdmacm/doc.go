// Package rdmacm is the seam between RDMA transports and the devices that carry them:
// listening and connecting with private data, a reliable connected queue pair, and memory
// that the device may use. Every kind of device implements the same interface: the software
// RNIC (rdmacm/iwarp), librdmacm and libibverbs, datagram providers, and the fake that
// fails on demand (rdmacm/rdmatest). Package rdmatest also holds the conformance suite that
// each of them passes.
//
// The seam is completion-based. Nothing in it blocks: the caller posts work in chains, and
// each chain comes back by its Done; the provider pushes messages to a Handler. Memory that
// was handed to a Conn comes back by Done only, never by Close.
//
// Terms are those of RFC 5040 and of the verbs: Send, RDMA Write, RDMA Read, steering tag
// (STag), tagged offset, inbound and outbound read depth (IRD, ORD). The package knows
// nothing of RPC.
package rdmacm
