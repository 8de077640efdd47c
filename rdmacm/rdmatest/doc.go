// Package rdmatest holds what tests of and on the rdmacm seam need.
//
//   - New opens an in-memory provider of exact semantics: what the seam
//     promises it keeps, and what the seam forbids ends the connection or
//     panics. Connections can be lost, posts and registrations failed,
//     completions delayed, Writes reordered and Reads held: see Faults. A Log
//     notes what happened in which order.
//   - Peer is a scripted opposite end: it sends any bytes, exposes memory,
//     promises any number of receives and notes all that it gets.
//   - Run is the conformance suite that every provider passes.
//
// Addresses of the in-memory provider are a name space of its own: nothing is
// opened in the network. Faults are set and the log is read while connections
// run. The package is for tests; servers do not import it.
package rdmatest
