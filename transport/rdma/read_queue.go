package rdma

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/internal/queue"
	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// maxRead is the largest RDMA Read, in bytes; longer segments are read in
// pieces.
const maxRead = 1 << 20

// A readQueue posts the RDMA Reads of all calls of a connection. It never has more outstanding than
// the peer allows, because a further Read would delay the replies behind it. It reads for the calls
// in the order in which they got their memory.
type readQueue struct {
	k *connection

	mu          sync.Mutex
	depth       int // the number of Reads that the peer allows
	outstanding int
	calls       queue.List[call, *call] // calls with Reads that are not posted yet
	pumping     bool
	claims      []*readClaim
}

// reads is the state of the RDMA Reads of one stage of a call. reading lists the segments that are
// still to be read; they go to the call's memory, and the next byte to the offset nextAt. From push
// until the call has left the queue, the queue's lock guards these fields. After that only the atomic
// fields change: unread counts the incomplete Reads, down to 0, and lost becomes true if a Read
// fails.
type reads struct {
	// prefix holds the start of the call's Position-Zero Read chunk, if the call was admitted on
	// the basis of that start. Otherwise it is nil.
	prefix   *prefix
	reading  []wire.ReadSegment
	cut      []wire.ReadSegment // buffer for reading at stagePrefix
	nextByte uint32             // offset within reading[0]
	nextAt   int
	unread   atomic.Int32
	lost     atomic.Bool
}

func (r *reads) reset() {
	r.dropPrefix()
	r.reading, r.cut = nil, r.cut[:0]
}

// push queues all Reads of c.
func (q *readQueue) push(c *call) {
	q.mu.Lock()
	q.calls.Add(c)
	q.mu.Unlock()
	q.pump()
}

// posted returns the number of outstanding Reads.
func (q *readQueue) posted() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return int64(q.outstanding)
}

// pump posts Reads until as many are outstanding as the peer allows. Only one goroutine posts at a
// time, because Post may call Done, which calls pump again. If another goroutine is posting, pump
// returns at once, and that goroutine posts the new Reads too.
func (q *readQueue) pump() {
	q.mu.Lock()
	if q.pumping {
		q.mu.Unlock()
		return
	}
	q.pumping = true
	for q.calls.First != nil && q.outstanding < q.depth {
		r := q.takeLocked()
		if r == nil {
			continue
		}
		q.outstanding++
		q.mu.Unlock()
		q.k.postChain(&r.chain)
		q.mu.Lock()
	}
	q.pumping = false
	q.mu.Unlock()
}

// takeLocked returns the next Read of the first call in the queue, or nil if that call has no Read
// left. After its last Read, the call leaves the queue.
func (q *readQueue) takeLocked() *read {
	c := q.calls.First
	at := &c.reads
	at.skip()
	var r *read
	if len(at.reading) > 0 {
		s := at.reading[0]
		n := min(s.Length-at.nextByte, maxRead)
		r = newRead()
		r.queue, r.call = q, c
		r.local[0] = c.reserved.memory.Bytes()[at.nextAt : at.nextAt+int(n) : at.nextAt+int(n)]
		r.work[0] = rdmacm.Work{Op: rdmacm.OpRead, Local: r.local[:], Remote: remote(s.Segment, at.nextByte)}
		r.chain.Work = r.work[:]
		at.nextByte += n
		at.nextAt += int(n)
		at.skip()
	}
	if len(at.reading) == 0 {
		q.calls.Remove(c)
	}
	return r
}

// remote returns an address in the segment s of the peer's memory. The parameter at is its distance
// from the start of s, in bytes.
func remote(s wire.Segment, at uint32) rdmacm.Remote {
	return rdmacm.Remote{STag: s.Handle, Offset: s.Offset + uint64(at)}
}

// skip removes segments that are completely read from r.reading. Each chunk starts at a page
// boundary of the call's memory, so skip rounds r.nextAt up at the end of a chunk.
func (r *reads) skip() {
	for len(r.reading) > 0 && r.reading[0].Length == r.nextByte {
		at := r.reading[0].Position
		r.reading, r.nextByte = r.reading[1:], 0
		if len(r.reading) > 0 && r.reading[0].Position != at {
			r.nextAt = pages(r.nextAt)
		}
	}
}

// A read is one RDMA Read of a call.
type read struct {
	queue *readQueue
	call  *call
	chain rdmacm.Chain
	work  [1]rdmacm.Work
	local [1][]byte
}

var readPool sync.Pool

func newRead() *read {
	r, ok := readPool.Get().(*read)
	if !ok {
		r = new(read)
		r.chain.Done, r.chain.Context = readDone, r
	}
	return r
}

// readDone is the Done function of a read's chain.
func readDone(chain *rdmacm.Chain, err error, failed int) {
	r := chain.Context.(*read)
	q, c, n := r.queue, r.call, len(r.local[0])
	r.queue, r.call, r.local[0], r.work[0] = nil, nil, nil, rdmacm.Work{}
	readPool.Put(r)

	q.k.returned()
	if err != nil {
		c.responder.operationFailed(c.in.xid, err, failed >= 0)
	} else {
		q.k.stats.BytesRead.Add(int64(n))
		q.k.moved.Add(uint64(n))
	}
	q.mu.Lock()
	q.outstanding--
	q.mu.Unlock()
	q.pump()
	c.readBack(err == nil)
}

// maxClaim is the largest number of bytes of memory that the calls of one connection in one
// mem.Group may hold for incomplete RDMA Reads. It is more than the data in flight on a
// fast network, so it does not slow the Reads down.
const maxClaim = 16 << 20

// A readClaim counts and limits the incomplete RDMA Reads of one connection's calls in one
// mem.Group. A call requests memory only when its Reads can be posted. Otherwise a peer could
// occupy memory merely by announcing data. Each group has its own readClaim, because the calls of a
// stalled file system keep their memory, and calls to other file systems must not wait for it.
//
// readQueue.mu guards it.
type readClaim struct {
	group         *mem.Group
	pieces, bytes int                     // number and bytes of the Reads of the calls that may request memory
	waiting       queue.List[call, *call] // calls that may not request memory yet
}

// room reports whether the Reads of c fit into the limits of cl, together with those that cl counts
// already. depth is the number of Reads that the peer allows. A single call always fits.
func (cl *readClaim) room(c *call, depth int) bool {
	return cl.pieces == 0 || cl.pieces+c.list.pieces <= depth && cl.bytes+c.list.bytes <= maxClaim
}

// charge makes cl count the Reads of c (sign 1), or no longer count them (sign -1).
func (cl *readClaim) charge(c *call, sign int) {
	if c.claim = nil; sign > 0 {
		c.claim = cl
	}
	cl.pieces += sign * c.list.pieces
	cl.bytes += sign * c.list.bytes
}

// claimOfLocked returns the readClaim of group g, and makes it if there is none.
func (q *readQueue) claimOfLocked(g *mem.Group) *readClaim {
	for _, cl := range q.claims {
		if cl.group == g {
			return cl
		}
	}
	cl := &readClaim{group: g}
	q.claims = append(q.claims, cl)
	return cl
}

// enter requests memory for c, a call with RDMA Reads. If these Reads exceed the limits of the
// readClaim for c's mem.Group, c first waits until leave finds that they fit.
func (q *readQueue) enter(c *call) {
	q.mu.Lock()
	cl := q.claimOfLocked(c.reserved.request.Group)
	if cl.waiting.First != nil || !cl.room(c, q.depth) {
		cl.waiting.Add(c)
		q.mu.Unlock()
		q.k.stats.ReadsDeferred.Add(1)
		return
	}
	cl.charge(c, 1)
	q.mu.Unlock()
	c.ask()
}

// leave removes the Reads of c from the count of its readClaim, which must not be nil. Then the calls
// that wait in this readClaim request their memory, in order, until the Reads of one do not fit.
func (q *readQueue) leave(c *call) {
	cl := c.claim
	q.mu.Lock()
	cl.charge(c, -1)
	for next := cl.waiting.First; next != nil && cl.room(next, q.depth); next = cl.waiting.First {
		cl.waiting.Remove(next)
		cl.charge(next, 1)
		q.mu.Unlock()
		next.ask()
		q.mu.Lock()
	}
	if cl.pieces == 0 && cl.waiting.First == nil {
		if i := slices.Index(q.claims, cl); i >= 0 && len(q.claims) > 1 {
			q.claims = slices.Delete(q.claims, i, i+1)
		}
	}
	q.mu.Unlock()
}

// closed drops the waiting calls, at the end of the connection.
func (q *readQueue) closed() {
	for {
		q.mu.Lock()
		var c *call
		for _, cl := range q.claims {
			if c = cl.waiting.First; c != nil {
				cl.waiting.Remove(c)
				break
			}
		}
		q.mu.Unlock()
		if c == nil {
			return
		}
		c.Drop()
	}
}
