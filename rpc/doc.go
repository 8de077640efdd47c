// Package rpc is ONC RPC version 2 (RFC 5531) whatever carries it: messages,
// credentials, admission of calls, dispatch to programs, the duplicate-request
// cache, and both roles on a connection.
//
// A call has one life. It arrives, with the part of its message that is at hand, and
// Admit decides on it: the Protection of its flavor verifies the caller, one walk
// over the arguments (Procedure.Walk) tells what the call is about, how large its
// results get and what may travel beside the message, and the program's Judge says
// whether this caller may have that. What is turned away is answered at once: the
// transport reserves and brings nothing for it. For what is let in, the transport
// reserves all the memory that the Plan asks for, brings the rest of the call, and
// hands it to Serve. The protection is taken off the arguments, the program runs,
// the protection is put on the results, and the reply goes back by the call's Way,
// exactly once.
//
// Serve runs a call on the goroutine that received it, as far as it can be answered
// without waiting. An attempt that would have to wait goes on on the Executor, from
// where the program last said that what it did stands (Call.Mark): a compound never
// runs an operation twice. A program that waits for something else (Outcome.Pending)
// goes on by Call.Resume or ends by Call.Complete.
//
// A program is registered by its number. A Fallback serves the calls of all others,
// such as a relay that carries them on.
//
// What must not be executed twice is answered from what was kept of the first time
// (Repeat, Kept). What is kept knows no verifier, no protection and no chunks: a
// replay is framed anew for the request that asks for it.
//
// The package knows no upper layer (their Bindings are values of its type) and
// no transport (they implement Way and Caller). Credits, chunks and records are
// the transports' business.
package rpc
