package iwarp

import (
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// An outRead is an RDMA Read of this side's that is on the wire: its sink is
// reached by stag, for the response to this very Read.
type outRead struct {
	next  *outRead
	stag  uint32
	base  uint64
	size  int
	chain *rdmacm.Chain

	// Where the next byte of the response goes: pieces[0][offset:].
	pieces [][]byte
	offset int
	placed int
}

// readQueue holds the Reads on the wire, oldest first. Conn.mu guards it; the
// placement in the first entry is the receiver's.
type readQueue struct {
	first, last *outRead
	count       int
}

func (q *readQueue) push(r *outRead) {
	if q.first == nil {
		q.first = r
	} else {
		q.last.next = r
	}
	q.last = r
	q.count++
}

func (q *readQueue) pop() *outRead {
	r := q.first
	q.first = r.next
	q.count--
	r.next = nil
	return r
}

// A response is an RDMA Read by the peer that waits for its answer.
type response struct {
	next    *response
	request wire.Read
	region  *region   // nil when nothing is read
	piece   [1][]byte // of the region, while it is sent
	// The request's header, in case it must be quoted.
	header [wire.UntaggedSize]byte
}

// answerQueue holds the responses that TCP has not taken to the end, oldest
// first; unsent is the first that the transmitter has not cut up. Conn.mu
// guards it.
type answerQueue struct {
	first, last, unsent *response
	count               int
}

func (q *answerQueue) push(a *response) {
	a.next = nil
	if q.first == nil {
		q.first = a
	} else {
		q.last.next = a
	}
	q.last = a
	if q.unsent == nil {
		q.unsent = a
	}
	q.count++
}

func (q *answerQueue) pop() *response {
	a := q.first
	q.first = a.next
	q.count--
	a.next = nil
	return a
}
