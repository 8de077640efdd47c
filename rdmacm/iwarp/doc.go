// Package iwarp is a software RNIC in user space. It implements rdmacm.Provider: it
// speaks RDMAP, DDP and MPA over ordinary TCP sockets, to any iWARP peer, Linux's
// siw first of all. It follows RFC 5040, RFC 5041, RFC 5044 and RFC 6581, both as
// initiator and as responder, and needs neither a device nor a privilege.
//
// # How it works
//
// Each connection has one goroutine that receives. While there is input, it borrows a ring (a receive
// buffer) from a pool that all connections share, and reads the socket into it. It parses FPDUs in the
// ring, copies payload to its destination, and calls the Handler. Large payload is read straight into
// its destination. The payload of an RDMA Read may be read there even before its header is parsed
// (inbound_response.go). Until the connection ends, the receiving goroutine waits only for input and
// for a ring. It never waits for the transmitter, for other memory, or until the peer reads.
//
// The goroutine that posts work also sends it, many FPDUs with one system call, until the socket takes
// no more. Another goroutine sends the rest; it ends when everything is sent. A completed Send or Write
// means that TCP took the bytes. A short Send that needs no completion (SendShort) is copied into the
// batch at once, if no other work waits to be sent.
//
// Registered memory is named by random steering tags. A tag is valid on one connection. The memory that
// an outgoing RDMA Read fills has a tag too, and only the response to that Read may use it.
//
// A responder sends nothing before the initiator's first FPDU has arrived. An initiator
// sends an empty RDMA Write or Read at once, so that either side may be the first to send
// a message. It repeats the empty message a few times if it receives nothing (ready.go).
// With Config.ClientServer it sends no empty messages.
//
// # Parts and locks
//
// A Conn has three parts, each with its own lock, and the memory that it exposes:
//
//   - The receiver (receiver.go, inbound_*.go) belongs to the
//     receiving goroutine. Its lock guards only the RDMA Reads that the transmitter
//     passes to it.
//   - The transmitter (posting.go, transmit.go, outgoing.go, batch.go, answers.go, marked.go,
//     fpdu_size.go, handover.go) holds the posted work and the answers to the peer. Its lock
//     guards these and its state. The FPDUs that it builds belong to the goroutine that is
//     the sender at the time.
//   - The lifecycle (lifecycle.go, watch.go, ready.go) holds the reason why
//     the connection ends, and watches the peer's progress. Its lock guards the reason
//     and the state of the watch.
//   - The regions (region.go) are memory that the peer may access.
//
// A part calls another only by the following methods, and holds none of the three locks
// then. It may also use the atomic fields of another part. Done, the Handler and Config's
// Event are called without any lock.
//
//	receiver    -> transmitter  hold, release: before and after the FPDUs in the ring;
//	                            answer, readDone, readFailed
//	transmitter -> receiver     expect: before the request of an RDMA Read is sent
//	receiver    -> lifecycle    heard: at the first FPDU; fault; end; watchOn; conclude: last
//	transmitter -> lifecycle    fault: memory to be sent is not exposed any more; watchOn
//	lifecycle   -> transmitter  flush, unfence, nudge, lastFPDU, drain, ended, wasReset, sending,
//	                            reading; at the end refuse, stop and flushAll
//	lifecycle   -> receiver     run, drop; partial: when it has stopped receiving
//	receiver    -> regions      reach, invalidate
//	lifecycle   -> regions      revokeAll
//
// Two further locks guard memory. region.mu is held while bytes from the peer are put into a region.
// referring.mu is held while bytes of regions are put into a batch or sent from there. Neither is held
// while a goroutine waits for the socket. Revocation and the sender lock referring.mu first, then
// region.mu. regions.mu guards a connection's list of regions. All connections share the rings, which
// have a lock of their own (package turns).
//
// # What it does not do
//
// It sends markers to a peer that wants them, and never asks for markers itself. It refuses the RDMA
// Consortium's protocol (MPA revision 0), atomic operations and immediate data (RFC 7306). RFC 5040
// §8.2.2 wants IPsec to be available; the administrator configures it on the host.
package iwarp
