// Package tcp carries RPC over byte streams, with record marking (RFC 5531 §11). Each side of a
// connection may make calls and serve calls.
//
// Each connection has one goroutine that receives. While there is input, it reads into a ring, a
// buffer that it borrows for that time. The number of rings is limited, and clients take turns
// (package turns). The goroutine passes each call to the RPC server. The call runs on this
// goroutine if it does not block, or if the peer makes one call at a time (lend.go); otherwise it
// runs on another goroutine. A record too large for the ring gets memory once its call is admitted
// (rpc.Server.Admit), for itself and for the results; the receiving goroutine reads the rest of the
// record directly into that memory. Replies are gathered, and one writev sends them when the input
// is used up. The payload of replies is not copied.
//
// If the socket does not take all output at once, the rest waits in a queue, and another goroutine
// writes it, which ends when the queue is empty. While this queue is too long (Config.MaxQueue), or
// too many calls are under way, the receiving goroutine does not read from the connection. If a
// peer stops reading, or stops in the middle of a record, it loses only its own connection, after a
// deadline (Config.Stall).
//
// The package does not depend on the RPC programs. Of a message it reads only the type and
// the XID.
package tcp
