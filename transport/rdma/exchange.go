package rdma

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/internal/queue"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// stage is the progress of an exchange. caller.mu guards it.
type stage uint8

const (
	stageWaiting  stage = iota // the exchange waits for a credit or for a connection
	stageBuilding              // the call is being encoded and its memory exposed
	stageSent
	stageEnded
)

// An exchange is the requester's record of one rpc.Exchange. The same record serves all
// attempts to make the call, each on another connection.
type exchange struct {
	x                     *rpc.Exchange
	xid                   uint32
	order                 uint64 // number of the call in the order of Start calls
	stage                 stage
	q                     *requester // requester of the present connection
	list                  *exchangeList
	queue.Links[exchange] // in list
	// cancelled is the argument of Cancel, if Cancel was called while another goroutine was working
	// on the exchange.
	cancelled error
	// age is the number of ticks of the requester's timer since the call was sent. Before that, it is how many
	// ticks the call was the first of the queue while no other call had been sent. Each connection begins at 0.
	age int
	// gaveUp marks an entry in requester.pending for a call that its caller cancelled: the call
	// still uses a credit until its answer comes.
	gaveUp bool

	// The RPC message of the call, and data for encoding it.
	write     xdr.Writer
	words     []byte
	elsewhere []int32 // for each payload, 0 if it travels in a Read chunk, or -1
	beside    []rpc.Placed
	args      xdr.Decoder // decodes the arguments to measure the results
	shape     rpc.Shape
	external  bool // the reduced Payload stream is in a Read chunk
	left      int  // its length
	zero      []byte
	out       outbound

	// The memory exposed to the peer.
	regions  []rdmacm.Region
	lists    wire.Lists
	segments []wire.Segment // segments of the Write list and the Reply chunk
	replyMem []byte

	// The outcome.
	parts  atomic.Int32 // how many of two events are still to come: the completion of the Send, and the outcome
	recv   *rdmacm.Recv // receive that holds the reply
	whole  *stream      // unless nil, the reply came in parts
	stream []byte
	places []xdr.Excised
	err    error
	lost   bool // the connection ended before the reply came
}

// An exchangeList is a queue of exchanges in the order of their Start calls.
type exchangeList struct {
	queue.List[exchange, *exchange]
}

// insert puts e into the list, which is sorted by exchange.order. It searches from the end,
// because the right place is nearly always there.
func (l *exchangeList) insert(e *exchange) {
	at := l.Last
	for at != nil && at.order > e.order {
		at = at.Prev
	}
	l.AddBehind(e, at)
	e.list = l
}

func (l *exchangeList) remove(e *exchange) {
	l.Remove(e)
	e.list = nil
}

// removeAll empties the list, and returns its exchanges.
func (l *exchangeList) removeAll() (all []*exchange) {
	for e := l.First; e != nil; e = l.First {
		l.remove(e)
		all = append(all, e)
	}
	return all
}

var exchangePool sync.Pool

// newExchange returns an exchange for x. xid and order are its numbers.
func newExchange(x *rpc.Exchange, xid uint32, order uint64) *exchange {
	e, ok := exchangePool.Get().(*exchange)
	if !ok {
		e = &exchange{words: make([]byte, 0, 1024)}
		e.out.init(256, e.sent)
		e.out.role = roleCall
	}
	e.x, e.xid, e.order, e.stage = x, xid, order, stageWaiting
	e.cancelled = nil
	x.XID, x.Err, x.Results, x.Transport = xid, nil, xdr.Decoder{}, e
	return e
}

// keptWords is the largest encoding buffer, in bytes, that is kept for reuse.
const keptWords = 64 << 10

// reset releases everything that the exchange holds for one attempt to make its call.
func (e *exchange) reset() {
	e.write.Release()
	if e.recv != nil {
		e.recv.Release()
		e.recv = nil
		e.whole.release()
		e.whole = nil
	}
	if cap(e.words) > keptWords {
		e.words = nil
	}
	e.out.reset()
	clear(e.regions)
	clear(e.places)
	e.regions, e.places = e.regions[:0], e.places[:0]
	e.elsewhere, e.beside, e.lists.Reads, e.segments = e.elsewhere[:0], e.beside[:0], e.lists.Reads[:0], e.segments[:0]
	e.lists.Writes, e.lists.Reply, e.replyMem, e.zero, e.stream = e.lists.Writes[:0], nil, nil, nil, nil
	e.err, e.lost, e.age = nil, false, 0
}

// finish ends the exchange: it passes the outcome to x.Done. The results are valid until Done has
// returned. The parameter mu is caller.mu, which finish locks.
func (e *exchange) finish(mu *sync.Mutex, err error) {
	x := e.x
	mu.Lock()
	x.Transport = nil
	mu.Unlock()
	e.tell(err)
}

// tell does the work of finish for an exchange that Cancel cannot reach any more, because x.Transport
// is nil. It takes no lock.
func (e *exchange) tell(err error) {
	x := e.x
	// Release the arguments first, because their memory belongs to the caller again when Done is
	// called.
	e.write.Release()
	if x.Err = err; err == nil {
		e.read()
	}
	if x.Done != nil {
		x.Done(x)
	}
	e.x, e.q = nil, nil
	e.reset()
	exchangePool.Put(e)
}

// read prepares the decoder of the results for the reply in e.stream, and for the data that the
// peer wrote into the call's Write chunks (e.places). Then it decodes the reply's header, with a
// fast path for the usual one: accepted, AUTH_NONE, SUCCESS.
func (e *exchange) read() {
	d := &e.x.Results
	if len(e.places) > 0 {
		d.ResetPlaces(e.stream, 0, e.places)
	} else {
		d.Reset(e.stream, 0, nil)
	}
	if len(e.stream) >= rpc.ReplyHeader && string(e.stream[4:rpc.ReplyHeader]) == plainSuccess {
		d.Skip(rpc.ReplyHeader)
		e.x.Verf = rpc.AuthBytes{}
		return
	}
	e.x.Read()
}

// plainSuccess is the header of nearly every reply, without its XID: REPLY, MSG_ACCEPTED,
// an empty verifier of AUTH_NONE, SUCCESS (RFC 5531 §9).
const plainSuccess = "\x00\x00\x00\x01" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00"

// Errors of calls that were not sent.
var (
	// errArguments: the arguments are longer than MaxArgs, or cannot be encoded as XDR.
	errArguments = errors.New("rdma: arguments do not fit what was said of them")
	// errThreshold: not even the header of the call fits into a Send.
	errThreshold = errors.New("rdma: header exceeds the inline threshold")
	// errSegments: the call has more segments than the peer takes.
	errSegments = errors.New("rdma: the call needs more segments than the peer takes")
	// errNoLong: the call or its reply does not fit into a Send, and this direction of the
	// connection allows no RDMA.
	errNoLong = errors.New("rdma: message exceeds the inline threshold")
	// errClientClosed: the Client was closed.
	errClientClosed = errors.New("rdma: client closed")
)
