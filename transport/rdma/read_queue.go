package rdma

import (
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// maxRead is the largest RDMA Read, in bytes; longer segments are read in
// pieces.
const maxRead = 1 << 20

// A readQueue schedules the RDMA Reads of all calls of a connection: no more
// outstanding than the peer allows, calls in the order in which they got their
// memory. A Read beyond that depth would hold up the replies behind it.
type readQueue struct {
	k *connection

	mu          sync.Mutex
	depth       int // what the peer allows
	outstanding int
	head, tail  *call
	pumping     bool
}

// push queues all Reads of c, from c.next on.
func (q *readQueue) push(c *call) {
	q.mu.Lock()
	c.queued = nil
	if q.tail == nil {
		q.head = c
	} else {
		q.tail.queued = c
	}
	q.tail = c
	q.mu.Unlock()
	q.pump()
}

// pump posts Reads while it may. Post may call Done, which comes back here: only
// one pump posts at a time, and it sees what the others would have done.
func (q *readQueue) pump() {
	q.mu.Lock()
	if q.pumping {
		q.mu.Unlock()
		return
	}
	q.pumping = true
	for q.head != nil && q.outstanding < q.depth {
		r := q.take()
		if r == nil {
			continue
		}
		q.outstanding++
		q.mu.Unlock()
		q.k.post(&r.chain)
		q.mu.Lock()
	}
	q.pumping = false
	q.mu.Unlock()
}

// take makes the next Read of the call at the head, which leaves the queue with
// its last. q.mu is held.
func (q *readQueue) take() *read {
	c := q.head
	for c.next < c.end && c.segments[c.next].Length == c.nextByte {
		c.next, c.nextByte = c.next+1, 0
	}
	var r *read
	if c.next < c.end {
		s := c.segments[c.next]
		n := min(s.Length-c.nextByte, maxRead)
		r = newRead()
		r.queue, r.call = q, c
		r.local[0] = c.memory.Bytes()[c.nextAt : c.nextAt+int(n) : c.nextAt+int(n)]
		r.work[0] = rdmacm.Work{Op: rdmacm.OpRead, Local: r.local[:], Remote: s.remote(c.nextByte)}
		r.chain.Work = r.work[:]
		c.nextByte += n
		c.nextAt += int(n)
	}
	for c.next < c.end && c.segments[c.next].Length == c.nextByte {
		c.next, c.nextByte = c.next+1, 0
		if c.next < c.end && c.segments[c.next].Position != c.segments[c.next-1].Position {
			c.nextAt = pages(c.nextAt)
		}
	}
	if c.next == c.end {
		q.head = c.queued
		if q.head == nil {
			q.tail = nil
		}
		c.queued = nil
	}
	return r
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

// readDone is the Done of a read's chain.
func readDone(chain *rdmacm.Chain, err error, failed int) {
	r := chain.Context.(*read)
	q, c, n := r.queue, r.call, len(r.local[0])
	r.queue, r.call, r.local[0], r.work[0] = nil, nil, nil, rdmacm.Work{}
	readPool.Put(r)

	q.k.watch.returned()
	if err != nil {
		c.responder.operationFailed(c.header.XID, err, failed >= 0)
	} else {
		q.k.stats.BytesRead.Add(int64(n))
	}
	q.mu.Lock()
	q.outstanding--
	q.mu.Unlock()
	q.pump()
	c.readBack(err == nil)
}
