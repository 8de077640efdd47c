// Package verbs is an rdmacm.Provider for RDMA devices: InfiniBand, RoCE, iWARP, and Linux's
// rxe and siw, by librdmacm and libibverbs (package shim, build tag verbs).
//
// # Parts and goroutines
//
// A Provider has one event channel, whose goroutine takes the events of the connection manager
// and never waits. A Conn has a completion channel of its own, whose goroutine polls both
// completion queues, calls the Handler and each Done, and ends the connection. Any goroutine
// may post. Only one goroutine at a time hands requests to the device, up to 64 in a call.
// Other goroutines only add their requests to the queue.
//
// A peer may vanish while neither side has anything to send, and a device does not notice that by
// itself. So after a minute of silence a Conn posts an empty request, a probe: keepalive.go.
//
// # Memory
//
// A device reaches registered memory only. The arena of payload memory is registered in chunks
// of 16 MiB, when work first names a chunk, in a protection domain that all connections of the
// device share. No key of that domain has remote rights. Each connection has its own buffers
// for the messages that arrive. Data that lies elsewhere is copied if it has up to 4 KiB.
// Longer data is registered until the work is done.
//
// A connection on iWARP, or one that may expose memory, has a protection domain of its own. The
// reason is that the key of an RDMA Read's sink is on the wire in iWARP, and that siw lets a
// peer read the memory of every key of the domain, whatever its rights (RFC 5042 §6.1.1). Such
// a connection registers each piece of payload until the work is done.
//
// # Lock
//
// Conn.mu guards all of a Conn except the fields that only its goroutine uses. It is not held
// during calls of the Handler, of Done, or of a device method that may sleep. The caller of a
// method whose name ends in Locked holds it.
package verbs
