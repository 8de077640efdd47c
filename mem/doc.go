// Package mem keeps payload memory: the bytes of NFS READs and WRITEs and of
// RPC messages too long for a Send, on their way between wire and file system.
//
// All of it comes from one arena outside the Go heap, mapped once and as large
// as the configured ceiling, so that the ceiling holds whatever happens, the
// garbage collector never looks at payload, and a device can be handed the
// whole of it. Blocks are whole pages and contiguous. Pages that were never
// used, or were given back by Trim, cost no memory.
//
// A call takes all that it will need in one Request, before it holds any, and
// waits in order. Whoever holds memory never waits for memory: that is why a
// ceiling cannot deadlock. Each connection draws on a Share of its own, so
// that a peer which pins memory pins only its own part. A Group bounds what may
// be pinned together for another reason, by a file system that stalls.
//
// The order: requests of a group that is at its limit wait in that group, those
// of a share at its limit in that share, and hold up nobody else. A request whose
// group and share have room waits in the pool's one queue, first come, first
// served; its head waits until its contiguous block exists, and nothing passes
// it, so that small requests cannot starve a large one.
//
// The package does not know what the bytes are. Fixed-size message buffers
// (Sends, records) and the receive ring of the software RNIC are not payload
// and are bounded by their owners.
package mem
