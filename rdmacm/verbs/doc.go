// Package verbs is an rdmacm.Provider for RDMA devices: InfiniBand, RoCE, iWARP, and Linux's
// rxe and siw, by librdmacm and libibverbs (package shim, build tag verbs).
//
// # Parts and goroutines
//
// A Provider has one event channel, whose goroutine takes the events of the connection
// manager and never waits. A Conn has a completion channel of its own, whose goroutine polls
// both completion queues, calls the Handler and each Done, and ends the connection. Any
// goroutine posts: the one that finds no sender becomes the sender, and hands the device up
// to 64 requests at a time; the others leave theirs in the queue.
//
// # Memory
//
// A device reaches registered memory only. The arena of payload memory is registered in
// chunks of 16 MiB, when work first names one, in a protection domain that all connections
// of the device share; no key of that domain has remote rights. Messages arrive in buffers
// of their connection. What lies elsewhere is copied up to 4 KiB, and registered for as long
// as the work takes beyond that.
//
// A connection on iWARP, or one that may expose memory, has a protection domain of its own:
// the key of an RDMA Read's sink is on the wire there, and siw lets a peer read what a key
// of the domain names, whatever its rights (RFC 5042 §6.1.1). It registers each piece of
// payload for as long as the work takes.
//
// # Lock
//
// Conn.mu guards all of a Conn but what its goroutine alone uses. It is not held during
// calls of the Handler, of Done, or of the device that may sleep. Methods whose names end
// in Locked are called with it.
package verbs
