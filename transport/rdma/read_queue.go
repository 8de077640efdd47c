package rdma

import (
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// maxRead is the largest RDMA Read, in bytes; longer segments are read in
// pieces.
const maxRead = 1 << 20

// A readQueue schedules the RDMA Reads of all calls of a connection. It never has more
// outstanding than the peer allows, because a Read beyond that depth would hold up the
// replies behind it. Calls are read in the order in which they got their memory.
type readQueue struct {
	k *connection

	mu          sync.Mutex
	depth       int // the number of Reads that the peer allows
	outstanding int
	head, tail  *call
	pumping     bool
	claims      []*readClaim
}

// push queues all Reads of c.reading.
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

// posted returns the number of outstanding Reads.
func (q *readQueue) posted() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return int64(q.outstanding)
}

// pump posts Reads as far as depth allows. Post may call Done, which calls pump again. Only
// one pump posts at a time, and it also posts the Reads that the others would have posted.
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
		q.k.postChain(&r.chain)
		q.mu.Lock()
	}
	q.pumping = false
	q.mu.Unlock()
}

// take makes the next Read of the call at the head. After its last Read the call leaves the
// queue. q.mu is held.
func (q *readQueue) take() *read {
	c := q.head
	c.skipRead()
	var r *read
	if len(c.reading) > 0 {
		s := c.reading[0]
		n := min(s.Length-c.nextByte, maxRead)
		r = newRead()
		r.queue, r.call = q, c
		r.local[0] = c.memory.Bytes()[c.nextAt : c.nextAt+int(n) : c.nextAt+int(n)]
		r.work[0] = rdmacm.Work{Op: rdmacm.OpRead, Local: r.local[:], Remote: remote(s.Segment, c.nextByte)}
		r.chain.Work = r.work[:]
		c.nextByte += n
		c.nextAt += int(n)
		c.skipRead()
	}
	if len(c.reading) == 0 {
		q.head = c.queued
		if q.head == nil {
			q.tail = nil
		}
		c.queued = nil
	}
	return r
}

// remote returns the place that is at bytes behind the start of s.
func remote(s wire.Segment, at uint32) rdmacm.Remote {
	return rdmacm.Remote{STag: s.Handle, Offset: s.Offset + uint64(at)}
}

// skipRead passes over segments that are completely read. Each chunk starts at a page
// boundary.
func (c *call) skipRead() {
	for len(c.reading) > 0 && c.reading[0].Length == c.nextByte {
		at := c.reading[0].Position
		c.reading, c.nextByte = c.reading[1:], 0
		if len(c.reading) > 0 && c.reading[0].Position != at {
			c.nextAt = pages(c.nextAt)
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

// readDone is the Done of a read's chain.
func readDone(chain *rdmacm.Chain, err error, failed int) {
	r := chain.Context.(*read)
	q, c, n := r.queue, r.call, len(r.local[0])
	r.queue, r.call, r.local[0], r.work[0] = nil, nil, nil, rdmacm.Work{}
	readPool.Put(r)

	q.k.returned()
	if err != nil {
		c.responder.operationFailed(c.in.XID, err, failed >= 0)
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
