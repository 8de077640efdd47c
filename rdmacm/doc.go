// Package rdmacm is the interface between RDMA transports and the devices that carry them: listening
// and connecting with private data, a reliable connected queue pair, and memory that the device may
// use. Every kind of device implements this interface, called the seam: the software RNIC
// (rdmacm/iwarp), librdmacm and libibverbs (rdmacm/verbs), and the in-memory provider that fails on
// demand (rdmacm/rdmatest). Package rdmatest also holds the conformance suite that each of them passes.
//
// The interface is completion-based. None of its methods for work blocks: the caller posts work
// in chains, and the provider calls Done of each chain when its work has ended. The provider
// passes messages to a Handler. Memory that was handed to a Conn belongs to the caller again
// when Done is called, and not earlier, even if the connection has ended.
//
// Terms are those of RFC 5040 and of the verbs: Send, RDMA Write, RDMA Read, steering tag (STag),
// tagged offset, inbound and outbound read depth (IRD, ORD). The package knows nothing of RPC.
package rdmacm
