// Package rpc is ONC RPC version 2 (RFC 5531) over any transport: messages, credentials, admission
// of calls, dispatch to programs, the duplicate-request cache, and calls in both directions on one
// connection.
//
// A call goes through these stages. When the start of its message has arrived, Admit decides on it.
// The Protection of its flavor verifies the caller. One walk over the arguments (Procedure.Walk)
// finds the object of the call, the largest size of its results, and the items that a transport
// with direct data placement may carry outside the message. The program's Judge decides whether
// this caller may make this call. Admit answers a rejected call at once: the transport reserves no
// memory for it and does not receive the rest. For an accepted call, the transport reserves the
// memory in its Plan, receives the rest of the call, and calls Serve. Serve removes the protection
// from the arguments, runs the program, protects the results, and sends the reply through the
// call's Way (the transport's object for the reply to one call), exactly once.
//
// Serve runs a call on the goroutine that received it until the call would have to wait. Then the
// executor runs it again, starting after the last step that the program marked as done (Call.Mark),
// so that a compound never runs an operation twice. A program that has to wait for another event
// returns Outcome.Pending. It then continues the call with Call.Resume, or ends it with
// Call.Complete.
//
// Programs register by number. A Fallback, such as a relay, serves the calls of all other programs.
//
// If a client repeats a call that must not be executed twice, the server answers with the stored
// result of the first execution (Kept). A Kept has no verifier, no protection and no chunks,
// because they differ for each request. The server adds them when it sends the reply.
//
// The package imports neither programs nor transports: a program describes itself by a Binding, and
// a transport implements Way and Caller. Credits, chunks and records belong to the transports.
package rpc
