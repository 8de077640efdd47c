// Package iwarp is a software RNIC in user space: a provider of the seam
// rdmacm that speaks RDMAP, DDP and MPA over ordinary TCP sockets, to any
// iWARP peer, Linux's siw first of all. It follows RFC 5040, RFC 5041, RFC 5044
// and RFC 6581, both as initiator and as responder, and needs neither a device
// nor a privilege.
//
// # How it works
//
// Each connection has one goroutine that receives. It reads the socket into a
// ring that it borrows while there is input, in turns with the other connections
// (ring.go), takes FPDUs apart in place, copies
// payload to where it belongs (large payload is read there directly, that of an
// RDMA Read ahead of the headers as well: ahead.go) and calls the Handler. It never
// waits for the transmitter, for memory or for the peer.
//
// What is posted is sent by the goroutine that posts, as far as the socket
// takes it without waiting, many FPDUs a call; the rest by a goroutine that
// lives as long as the socket is full. A completed Send or Write means that TCP
// took the bytes. A short Send that need not come back (SendShort) is copied into
// the batch at once, as long as nothing else waits to be sent.
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
// # Parts and locks
//
// A Conn is three parts, each with a lock of its own, and the memory that it
// exposes:
//
//   - The receiver (receiver.go, placement.go, inbound_*.go) belongs to the
//     receiving goroutine. Its lock guards only the RDMA Reads that the transmitter
//     hands over.
//   - The transmitter (transmit.go, posting.go, outgoing.go, build_fpdu.go, batch.go,
//     record.go) has what was posted and what the peer is to be answered. Its lock
//     guards those and its state; what it builds belongs to the goroutine that is
//     the sender at the time.
//   - The lifecycle (lifecycle.go, fault.go, watch.go, nudge.go) knows why the
//     connection ends, and watches the peer. Its lock guards that.
//   - The regions (region.go) are memory that the peer may reach.
//
// A part calls another only by these methods, and with none of the three locks
// held; Done, the Handler and Config's Event are called without any lock.
//
//	receiver    -> transmitter  hold, release: around a run of FPDUs; readDone, readFailed
//	transmitter -> receiver     expect: a Read whose request goes out next
//	receiver    -> lifecycle    heard: the first FPDU; fault; end; watchOn; conclude, at last
//	transmitter -> lifecycle    fault: memory to be sent is not exposed any more; watchOn
//	lifecycle   -> transmitter  flush, lift, nudge, lastFPDU, leave, drain, ended, wasReset,
//	                            sending, reading; refuse, stop and flushAll, at the end
//	lifecycle   -> receiver     run, drop; partial, once it receives no more
//	receiver    -> regions      reach, invalidate
//	lifecycle   -> regions      revokeAll
//
// Two further locks are about memory: region.mu is held while the peer's bytes are
// put into a region, referring.mu while bytes of regions are put into a batch or
// sent from there. Neither is held while waiting for the socket. Revocation takes
// referring.mu, then region.mu; so does the sender. regions.mu guards the list of
// them. rings.mu, which all connections share, guards who waits for a ring; any part
// may take it, and with it no other lock.
//
// # What it does not do
//
// Markers are generated for a peer that wants them and never asked for. The
// RDMA Consortium's dialect (MPA revision 0), atomic operations and immediate
// data (RFC 7306) are refused. IPsec, which RFC 5040 §8.2.2 wants available
// below, is the host's to configure.
package iwarp
