// Package rpc is ONC RPC version 2 (RFC 5531) whatever carries it: messages,
// credentials, admission of calls, dispatch to programs, the duplicate-request
// cache, and both roles on a connection.
//
// A transport hands over each call twice. First to Admit, with the part of the
// message that is at hand: program, procedure and the program's Binding say
// there whether the call is served at all, whether what the peer moved beside
// the message may be moved, and how much memory the call will need. Only then
// does the transport reserve that memory and bring the rest; and then Serve
// runs the call, on the goroutine that received it if it can be answered without
// blocking, on the bounded Executor otherwise. The reply goes back by the
// call's Way, exactly once.
//
// The package knows no upper layer (their Bindings are values of its type) and
// no transport (they implement Way and Caller). Credits, chunks and records are
// the transports' business.
package rpc
