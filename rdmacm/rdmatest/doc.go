// Package rdmatest has tools to test the rdmacm seam and its users.
//
//   - New returns an in-memory provider that keeps every promise of package rdmacm. If its user
//     breaks a rule of rdmacm, the provider ends the connection or panics. Tests can lose
//     connections, make posts and registrations fail, delay completions, reorder Writes and hold
//     Reads: see Faults. A Log records the events in their order.
//   - A Peer is the scripted other end of a connection: it sends any bytes, exposes memory,
//     promises any number of receives, and records all messages that it gets.
//   - Run is the conformance suite that every provider passes.
//
// The in-memory provider has addresses of its own, and opens nothing in the network. Tests
// may set faults and read the log while connections run. Only tests import this package.
package rdmatest
