// Package rpc is ONC RPC version 2 (RFC 5531) over any transport: messages, credentials,
// admission of calls, dispatch to programs, the duplicate-request cache, and both roles on a
// connection.
//
// A call goes through these stages. When the start of its message has arrived, Admit decides on
// it. The Protection of its flavor verifies the caller. One walk over the arguments
// (Procedure.Walk) finds out what the call is about, how large its results get, and which items
// may travel beside the message. The program's Judge decides whether this caller may make this
// call. Admit answers a rejected call at once: the transport reserves and brings nothing for it.
// For an accepted call, the transport reserves the memory in its Plan, brings the rest of the
// call, and calls Serve. Serve removes the protection from the arguments, runs the program,
// protects the results, and sends the reply by the call's Way, exactly once.
//
// Serve runs a call on the goroutine that received it until the call would have to wait. Then the
// executor runs it again, starting after the last step that the program marked as done
// (Call.Mark), so that a compound never runs an operation twice. A program that waits for
// something else (Outcome.Pending) continues by Call.Resume or ends by Call.Complete.
//
// Programs register by number. A Fallback serves the calls of all other programs, such as a
// relay.
//
// If a call that must not be executed twice comes again, the server answers it with the reply of
// the first time (Kept). A Kept has no verifier, no protection and no chunks: the server frames
// it anew for each request.
//
// The package knows no upper layer (their Bindings are values of its type) and no transport
// (transports implement Way and Caller). Credits, chunks and records belong to the transports.
package rpc
