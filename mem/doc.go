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
//   - A Client, which is the sum of the shares of one address, has its turn later if it holds more
//     than its fair part while others wait (client.go).
//   - The reserve, a sixteenth of the arena, is for requests of at most 64 KiB. What a client may
//     hold of it falls with its free part, so that each newcomer finds a page (zone.go).
//   - Memory in the Go heap that a connection makes the process keep is charged to its share, and
//     takes the place of payload memory (ledger.go).
//
// A Request that cannot be served at once waits at the end of its requestQueue: one for each share,
// group and kind (small or large). Requests of one requestQueue are served in the order of Get.
// For the main zone, clients take turns in each group, and within a client its requestQueues; of
// the groups' first requests, that of the client is served which was not served for longest. Small
// requests wait in the same way for the reserve (request_queue.go). grantLocked serves all that can
// be served. A request that waits for its share, or for its group, delays no other share or group.
// A large request whose turn it is keeps it until its block exists, so that small ones cannot starve
// it (grant.go). If its block cannot come to exist, because stalled calls hold pages in between, it
// gives way to the others until it can (unfittable.go).
//
// While memory is short, the pool ends shares whose peers move too little, the largest holders
// first (pressure.go, Holder).
//
// The package imports no other room of this module. internal/queue is no room: it is a list that
// imports nothing, and that rpc uses as well.
//
// The package does not know the meaning of the bytes. Memory that is not charged, such as an idle
// connection or receive rings, is bounded by its owners.
package mem
