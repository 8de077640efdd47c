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

func (r *outRead) link() **outRead { return &r.next }

// readQueue holds Reads on the wire, oldest first.
type readQueue = fifo[outRead, *outRead]

// A response is an RDMA Read by the peer that waits for its answer.
type response struct {
	next    *response
	request wire.Read
	region  *region   // nil when nothing is read
	piece   [1][]byte // of the region, while it is sent
	// The request's header, in case it must be quoted.
	header [wire.UntaggedSize]byte
}

func (a *response) link() **response { return &a.next }

// answerQueue holds responses, oldest first.
type answerQueue = fifo[response, *response]

// A fifo is a list of things that name the next one themselves, so that nothing is
// allocated for it.
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

// join moves what is in other to the end of q.
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
