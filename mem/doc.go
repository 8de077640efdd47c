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
// waits in order. A call that holds memory never waits for memory: that is why a
// ceiling cannot deadlock. Each connection draws on a Share of its own, so
// that a peer which pins memory pins only its own part. A Group bounds what may
// be pinned together for another reason, by a file system that stalls.
//
// The order: requests of a group that is at its limit wait in that group, those
// of a share at its limit in that share, and hold up no others. What waits for the
// pool waits by client: clients take turns, within a client its shares do, and of one
// share and group the order is that of Get. The request whose turn it is keeps it
// until its contiguous block exists, so that small requests cannot starve a large
// one. While others wait, a client gets no more than its fair part. A part of the
// arena, the reserve, is for small requests alone.
//
// What a connection makes the process keep in the Go heap is charged to its share
// (Ledger), and takes the place of payload memory. While memory is short, shares whose
// peers move too little are ended, the largest holders first (Holder).
//
// The package does not know what the bytes are. What is not charged (an idle
// connection, the rings that are borrowed while there is input) is bounded by its
// owners.
package mem
