// Package tcp carries RPC over byte streams: record marking (RFC 5531 §11), for both roles
// on a connection.
//
// Each connection has one goroutine that receives. While there is input, it reads into a
// borrowed ring. It admits each call there, and serves it there if that does not block. A
// record too large for the ring gets memory once its call is admitted, for itself and for
// the results; the goroutine reads the rest of the record straight into that memory.
// Replies are gathered, and one writev sends them when the input is used up. Payload is
// referenced and never copied.
//
// The receiving goroutine never waits for a transmitting one. Output that the socket does
// not take waits in a bounded queue, and a goroutine that exists only then writes it. If
// the queue is full, or too many calls are under way, the connection is not read until that
// has passed. If a peer stops reading, or stops in the middle of a record, it loses only
// its own connection, after a deadline.
//
// The package does not depend on the RPC programs. Of a message it reads only the type and
// the XID.
package tcp
