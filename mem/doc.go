// Package mem manages payload memory: buffers for the data of NFS READs and WRITEs, and for RPC
// messages that are too long for an RDMA Send.
//
// All buffers come from one arena outside the Go heap. It is mapped once, and is as large as the
// configured ceiling. So payload memory never exceeds the ceiling, the garbage collector never
// scans payload, and a device can register the arena in chunks at fixed places. Blocks are
// contiguous whole pages (pages.go). Pages that were never used, or were trimmed, cost no memory
// (trim.go).
//
// A call asks for all the memory that it needs in one Request, before it holds any, and waits in
// order. A call that holds memory never waits for more: therefore the ceiling cannot cause a
// deadlock. A Request that would exceed one of these limits waits, or is served later than others:
//
//   - The Pool hands out the pages of its arena.
//   - A Share is the memory of one connection. It is at most Config.Share (share.go).
//   - A Group is the memory for calls that may stall together, such as those for one file system.
//     It is at most half of what the other Groups leave, and at most Config.Group (group.go).
//   - A Client is the sum of the Shares of one client address. What a Client, and the Clients of one
//     site, hold of the main zone in a Group has the bounds of package fair (part.go). While others wait
//     for memory, those that hold more than their parts are served after them.
//   - The reserve, a sixteenth of the arena, is for requests of at most 64 KiB. The less of it is
//     free, the less a Client may hold of it, so that each new Client finds a free page (pages.go).
//
// Memory in the Go heap that a connection makes the process keep, such as calls that wait, is charged
// to its Share (Ledger). Charges have an account of their own, a quarter of the ceiling. While it is
// full, connections begin no more calls (Share.Full). A charge never delays a Request: a call that waits
// for payload memory holds none of it.
//
// A Request that cannot be served at once waits at the end of its requestQueue: there is one for
// each share, group and kind (small or large). Requests of one requestQueue are served in the order
// of Get. In each group, sites are served in turn from the main zone, and so are the clients of a site,
// and the requestQueues of a client. Of the requests that are first in their groups, the pool serves the
// one whose site was served least recently. Small requests wait in the same way for the reserve, where
// of the clients of a site the one that has least of it comes first (request_queue.go, site_row.go).
// The cost of a grant grows with the number of sites that wait, and with the number of queues that wait for their
// shares or for a block that cannot become free, but only with the logarithm of the number of clients.
//
// grantLocked serves every request that can be served. A request that waits for its share, or for its
// group, delays no other share or group. Once a large request is next, it stays next until its block is
// free, so that small ones cannot starve it (grant.go). If its block cannot become free, because stalled
// calls hold pages in between, the pool serves other requests until the block can become free (grant.go).
//
// While memory is short, the pool ends connections (Holder.End) whose peers move too few bytes, and
// begins with the clients that hold the most memory (pressure.go).
//
// The package imports three small packages of this module: internal/queue, a list; internal/fair, the
// rule for shares; and internal/clientaddr, the addresses that count as one client.
//
// The package does not know the meaning of the bytes. It does not limit memory that no Ledger
// counts, such as the receive rings of an idle connection: the owners of such memory limit it.
package mem
