// Package mem keeps payload memory: the bytes of NFS READs and WRITEs and of RPC messages too
// long for a Send, on their way between wire and file system.
//
// It comes from one arena outside the Go heap, mapped once and as large as the configured
// ceiling. So the ceiling always holds, the garbage collector never scans payload, and a device
// can register the whole arena. Blocks are contiguous whole pages. Pages that were never used, or
// were trimmed, cost no memory.
//
// A call asks for all the memory that it needs in one Request, before it holds any, and waits in
// order. A call that holds memory never waits for more: therefore the ceiling cannot cause a
// deadlock. Each connection has a Share of its own, so that a peer which pins memory pins only
// its own part. A Group bounds the memory that a stalled file system can pin.
//
// The order: if a group is at its limit, its requests wait in the group; if a share is at its
// limit, its requests wait in the share; neither delays others. All other requests wait in the
// pool's queue: there clients take turns, within a client its shares take turns, and requests of
// one share and group come in the order of Get. The request whose turn it is keeps it until its
// contiguous block exists, so that small requests cannot starve a large one. While others wait, a
// client gets no more than its fair part. A part of the arena, the reserve, is for small requests
// alone.
//
// Memory in the Go heap that a connection makes the process keep is charged to its share
// (Ledger), and takes the place of payload memory. While memory is short, the pool ends shares
// whose peers move too little, the largest holders first (Holder).
//
// The package does not know the meaning of the bytes. Memory that is not charged, such as an idle
// connection or receive rings, is bounded by its owners.
package mem
