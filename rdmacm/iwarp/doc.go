// Package iwarp is a software RNIC in user space: a provider of the seam
// rdmacm that speaks RDMAP, DDP and MPA over ordinary TCP sockets, to any
// iWARP peer, Linux's siw first of all. It follows RFC 5040, RFC 5041, RFC 5044
// and RFC 6581, both as initiator and as responder, and needs neither a device
// nor a privilege.
//
// # How it works
//
// Each connection has one goroutine that receives. It reads the socket into a
// ring that it borrows while there is input, takes FPDUs apart in place, copies
// payload to where it belongs (large payload is read there directly) and calls
// the Handler. It never waits for the transmitter, for memory or for the peer.
//
// What is posted is sent by the goroutine that posts, as far as the socket
// takes it without waiting, many FPDUs a call; the rest by a goroutine that
// lives as long as the socket is full. A completed Send or Write means that TCP
// took the bytes.
//
// Registered memory is named by random steering tags that are valid on one
// connection. The sink of an outgoing RDMA Read has one too, for which only the
// response to that very Read is accepted.
//
// A responder sends nothing before the initiator's first FPDU has arrived. An
// initiator sends an empty RDMA Write or Read at once, and again while it hears
// nothing, so that either side may be the first to send a message; Config's
// ClientServer makes it keep silent until something is posted.
//
// # What it does not do
//
// Markers are generated for a peer that wants them and never asked for. The
// RDMA Consortium's dialect (MPA revision 0), atomic operations and immediate
// data (RFC 7306) are refused. IPsec, which RFC 5040 §8.2.2 wants available
// below, is the host's to configure.
package iwarp
