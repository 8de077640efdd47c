// Package tcp carries RPC over byte streams: record marking (RFC 5531 §11), for
// both roles on a connection.
//
// A connection has one goroutine that receives. It reads into a ring that it
// borrows while there is input, admits each call from there, and serves it there
// if it can be answered without blocking. Records too large for the ring get
// memory after they were admitted, for themselves and for their results, and the
// rest of them is read straight into it. Replies are gathered and leave by one
// writev when the input is drained; payload is referenced and never copied.
//
// The goroutine that receives never waits for one that transmits: what the
// socket does not take waits in a bounded queue for a goroutine that exists only
// then. A connection whose queue is full, or that has too many calls under way,
// is not read from until that has passed. A peer that stops reading, or stops in
// the middle of a record, loses its own connection after a deadline.
//
// The package knows no program, and nothing of what the bytes mean beyond the
// RPC message's type and XID.
package tcp
