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
	msn   uint32 // of the request
	chain *rdmacm.Chain

	// Where the next byte of the response goes: pieces[0][offset:].
	pieces [][]byte
	offset int
	placed int
}

// readQueue holds Reads on the wire, oldest first.
type readQueue struct {
	first, last *outRead
}

func (q *readQueue) push(r *outRead) {
	if q.first == nil {
		q.first = r
	} else {
		q.last.next = r
	}
	q.last = r
}

func (q *readQueue) pop() *outRead {
	r := q.first
	q.first = r.next
	r.next = nil
	return r
}

// join moves what is in other to the end of q.
func (q *readQueue) join(other *readQueue) {
	if other.first == nil {
		return
	}
	if q.first == nil {
		q.first = other.first
	} else {
		q.last.next = other.first
	}
	q.last = other.last
	*other = readQueue{}
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

// answerQueue holds responses, oldest first.
type answerQueue struct {
	first, last *response
}

func (q *answerQueue) push(a *response) {
	a.next = nil
	if q.first == nil {
		q.first = a
	} else {
		q.last.next = a
	}
	q.last = a
}

func (q *answerQueue) pop() *response {
	a := q.first
	q.first = a.next
	a.next = nil
	return a
}

// join moves what is in other to the end of q.
func (q *answerQueue) join(other *answerQueue) {
	if other.first == nil {
		return
	}
	if q.first == nil {
		q.first = other.first
	} else {
		q.last.next = other.first
	}
	q.last = other.last
	*other = answerQueue{}
}
