package iwarp

import (
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// An outRead is an outstanding RDMA Read of this side. stag names the memory that it fills; only
// the response to this Read may use it.
type outRead struct {
	next  *outRead
	stag  uint32
	base  uint64
	size  int
	msn   uint32 // of the request
	chain *rdmacm.Chain

	// The response's next byte goes to pieces[0][offset]. placed is the number of bytes received.
	pieces [][]byte
	offset int
	placed int
}

func (r *outRead) link() **outRead { return &r.next }

// readQueue holds outstanding RDMA Reads, oldest first.
type readQueue = fifo[outRead, *outRead]

// A response is the answer to an RDMA Read of the peer, until all its FPDUs are built.
type response struct {
	next    *response
	request wire.Read
	region  *region   // nil if the Read has length 0
	piece   [1][]byte // the part of the region that is sent
	// header is the DDP header of the request, for a Terminate that quotes it.
	header [wire.UntaggedSize]byte
}

func (a *response) link() **response { return &a.next }

// answerQueue holds responses, oldest first.
type answerQueue = fifo[response, *response]

// A fifo is a linked list whose elements hold the link themselves, so that it allocates
// nothing.
type fifo[T any, P interface {
	*T
	link() **T
}] struct {
	first, last *T
}

func (q *fifo[T, P]) push(x *T) {
	*P(x).link() = nil
	if q.first == nil {
		q.first = x
	} else {
		*P(q.last).link() = x
	}
	q.last = x
}

func (q *fifo[T, P]) pop() *T {
	x := q.first
	next := P(x).link()
	q.first, *next = *next, nil
	return x
}

// join moves the elements of other to the end of q.
func (q *fifo[T, P]) join(other *fifo[T, P]) {
	if other.first == nil {
		return
	}
	if q.first == nil {
		q.first = other.first
	} else {
		*P(q.last).link() = other.first
	}
	q.last = other.last
	*other = fifo[T, P]{}
}
