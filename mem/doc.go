// Package mem keeps payload memory: the bytes of NFS READs and WRITEs and of RPC messages too
// long for a Send, on their way between wire and file system.
//
// It comes from one arena outside the Go heap, mapped once and as large as the configured
// ceiling. So the ceiling always holds, the garbage collector never scans payload, and a device
// can register the arena in chunks at fixed places. Blocks are contiguous whole pages (pages.go).
// Pages that were never used, or were trimmed, cost no memory (trim.go).
//
// A call asks for all the memory that it needs in one Request, before it holds any, and waits in
// order. A call that holds memory never waits for more: therefore the ceiling cannot cause a
// deadlock. Each bound is a counter with one rule:
//
//   - The arena: pages in use and charged pages stay within the ceiling.
//   - A Share, which is a connection, holds at most Config.Share (share.go).
//   - A Group, which is a file system that may stall, holds at most half of what the other groups
//     leave, and at most Config.Group (group.go).
//   - A Client, which is the sum of the shares of one address, is served after the others if it
//     holds more than its fair part while they wait (client.go).
//   - The reserve, a sixteenth of the arena, is for requests of at most 64 KiB. The less of it is
//     free, the less a client may hold of it, so that each newcomer finds a page (zone.go).
//   - Memory in the Go heap that a connection makes the process keep is charged to its share, and
//     takes the place of payload memory (ledger.go).
//
// A Request that cannot be served at once waits at the end of its requestQueue: there is one for
// each share, group and kind (small or large). Requests of one requestQueue are served in the order
// of Get. In each group, clients are served in turn from the main zone, and within a client its
// requestQueues are. Of the requests that are first in their groups, the pool serves the one whose
// client was served least recently. Small requests wait in the same way for the reserve
// (request_queue.go). grantLocked serves every request that can be served. A request that waits for
// its share, or for its group, delays no other share or group. Once a large request is next, it
// stays next until its block is free, so that small ones cannot starve it (grant.go). If its block
// cannot become free, because stalled calls hold pages in between, it lets the others pass until it
// can (unfittable.go).
//
// While memory is short, the pool ends shares whose peers move too little, the largest holders
// first (pressure.go, Holder).
//
// The package imports no other package of this module except internal/queue, a list that imports
// nothing.
//
// The package does not know the meaning of the bytes. Memory that is not charged, such as an idle
// connection or receive rings, is bounded by its owners.
package mem
