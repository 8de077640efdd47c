package tcp

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// ErrReplyTooLong is the error of an exchange whose reply is longer than its MaxResults and Sinks,
// or DialConfig.MaxRecord, allow.
var ErrReplyTooLong = errors.New("tcp: reply is longer than the exchange allows")

// A caller makes the calls from this side to the peer. It implements rpc.Caller. It sends each call
// only once.
type caller struct {
	conn  *conn
	mu    sync.Mutex
	calls map[uint32]waiting // by XID
	xid   uint32
	lost  error // once the connection has ended: rpc.ErrCallLost, with the reason
}

// waiting is an exchange that waits for its reply.
type waiting struct {
	x        *rpc.Exchange
	in       *incoming // the reply while it arrives into memory of x, or nil
	payloads bool      // true if the output may still refer to memory of x
	// encoding is true while Start encodes the call. Until then only Start ends the exchange. err is
	// the argument of Cancel, if Cancel was called meanwhile.
	encoding bool
	err      error
}

func (k *caller) init(c *conn) {
	k.conn = c
	k.calls = make(map[uint32]waiting)
	k.xid = rand.Uint32()
}

// An encoder holds the writer and buffer for one call.
type encoder struct {
	w   xdr.Writer
	buf []byte
}

var encoders = sync.Pool{New: func() any { return new(encoder) }}

// Start implements rpc.Caller.
func (k *caller) Start(x *rpc.Exchange) {
	k.mu.Lock()
	if lost := k.lost; lost != nil {
		k.mu.Unlock()
		x.Err = lost
		x.Done(x)
		return
	}
	for {
		k.xid++
		if _, taken := k.calls[k.xid]; !taken {
			break
		}
	}
	x.XID = k.xid
	k.calls[k.xid] = waiting{x: x, encoding: true}
	k.mu.Unlock()

	e := encoders.Get().(*encoder)
	size := markSize + rpc.MaxCallHeader + x.MaxArgs
	if cap(e.buf) < size {
		e.buf = make([]byte, max(size, keptRoom))
	}
	e.w.Reset(e.buf[markSize:markSize:size])
	x.Put(&e.w)
	length := e.w.StreamLen()
	k.mu.Lock()
	err := k.calls[x.XID].err
	switch {
	case err != nil:
	case e.w.Overflow() || length > maxFragment:
		err = errors.New("tcp: arguments exceed MaxArgs")
	case k.lost != nil:
		err = k.lost
	}
	if err != nil {
		delete(k.calls, x.XID)
		k.mu.Unlock()
		e.w.Release()
		encoders.Put(e)
		x.Err = err
		x.Done(x)
		return
	}
	b := e.buf[:markSize+e.w.Len()]
	putMark(b, length)
	if len(b) > smallReply {
		e.buf = nil // from now on the output owns the buffer
	}
	payloads := e.w.TakePayloads()
	// From here on the exchange may end at any time. If it does, takeBack finds the exchange's
	// memory in the output queue.
	k.calls[x.XID] = waiting{x: x, payloads: len(payloads) > 0}
	k.conn.out.mu.Lock()
	k.conn.out.appendLocked(nil, b, payloads, x)
	k.conn.out.mu.Unlock()
	k.mu.Unlock()
	k.conn.out.mu.Lock()
	k.conn.out.pushAndUnlock()
	e.w.Reset(nil)
	encoders.Put(e)
}

// Cancel implements rpc.Caller.
func (k *caller) Cancel(x *rpc.Exchange, err error) {
	k.mu.Lock()
	c := k.calls[x.XID]
	if c.x != x {
		k.mu.Unlock()
		return
	}
	if c.encoding {
		if c.err == nil {
			c.err = err
			k.calls[x.XID] = c
		}
		k.mu.Unlock()
		return
	}
	delete(k.calls, x.XID)
	k.mu.Unlock()
	k.conn.out.takeBack(x)
	if c.in != nil {
		c.in.takeBack()
	}
	x.Err = err
	x.Done(x)
}

// fail ends the exchange of an arriving reply with err, unless it has ended already.
func (k *caller) fail(in *incoming, err error) {
	if x := k.claim(in.xid); x != nil {
		x.Err = err
		x.Done(x)
	}
}

// lose ends every exchange with rpc.ErrCallLost, because the connection has ended for the reason why.
func (k *caller) lose(why error) {
	if why == io.EOF {
		why = errLeftAlone
	}
	err := fmt.Errorf("%w: %w", rpc.ErrCallLost, why)
	k.mu.Lock()
	k.lost = err
	var lost []*rpc.Exchange
	for xid, c := range k.calls {
		if !c.encoding {
			delete(k.calls, xid)
			lost = append(lost, c.x)
		}
	}
	k.mu.Unlock()
	for _, x := range lost {
		x.Err = err
		x.Done(x)
	}
}

// idle reports whether no call waits for a reply.
func (k *caller) idle() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.calls) == 0
}

// sentLocked returns the entry of an exchange whose call is encoded. It has a nil x if there is none
// with this XID.
func (k *caller) sentLocked(xid uint32) waiting {
	if c := k.calls[xid]; !c.encoding {
		return c
	}
	return waiting{}
}

// claim removes and returns the exchange that waits for a reply with this XID. It returns nil if
// there is none. A peer may answer before it has received the whole call, so claim also makes sure
// that the output no longer uses the exchange's memory.
func (k *caller) claim(xid uint32) *rpc.Exchange {
	k.mu.Lock()
	c := k.sentLocked(xid)
	if c.x != nil {
		delete(k.calls, xid)
	}
	k.mu.Unlock()
	if c.payloads && k.conn.out.queued.Load() > 0 {
		k.conn.out.takeBack(c.x)
	}
	return c.x
}

// replied ends the exchange to which the complete reply m belongs.
func (k *caller) replied(m []byte) {
	xid, _, _ := rpc.MessageType(m)
	x := k.claim(xid)
	if x == nil {
		k.conn.count.stray.Add(1)
		return
	}
	deliver(x, m, nil)
}

func deliver(x *rpc.Exchange, m []byte, placed []xdr.Excised) {
	x.Results.Reset(m, 0, placed)
	x.Read()
	x.Done(x)
}

// An incoming is an arriving reply that is too large for the ring.
type incoming struct {
	x      *rpc.Exchange
	xid    uint32
	words  []byte // memory for the message without the result that goes to the sink
	places [][]byte
	most   int // the reply's length if known, otherwise the largest allowed, in bytes
	// The message consists of the bytes before the result for the first sink (rpc.Exchange.Sinks),
	// this result with its padding, and the rest. The field from is the offset of the second part
	// in the message. The field to is the offset of the third part.
	from, to int
	item     []xdr.Excised
	padding  [4]byte

	mu   sync.Mutex
	gone bool // the exchange has ended, so its memory must not be written any more
}

// lock prevents the exchange from ending while its memory is written. It returns false if the
// exchange has already ended.
func (in *incoming) lock() bool {
	in.mu.Lock()
	if in.gone {
		in.mu.Unlock()
		return false
	}
	return true
}

func (in *incoming) unlock() { in.mu.Unlock() }

func (in *incoming) takeBack() {
	in.mu.Lock()
	in.gone = true
	in.mu.Unlock()
}

// admitReply finds memory for a reply. m is the start of the reply, and known is the sum of the
// fragment lengths received so far; if final is set, there is no further fragment. admitReply
// returns nil if no exchange waits for the reply, or if the reply is too long for its exchange,
// which then ends with ErrReplyTooLong.
func (k *caller) admitReply(m []byte, known int, final bool) *incoming {
	xid, _, _ := rpc.MessageType(m)
	k.mu.Lock()
	c := k.sentLocked(xid)
	x := c.x
	if x == nil {
		k.mu.Unlock()
		k.conn.count.stray.Add(1)
		return nil
	}
	most := k.conn.cfg.MaxRecord
	if x.MaxResults > 0 {
		allowed := rpc.ReplyHeader + rpc.MaxAuthBytes + x.MaxResults
		for _, s := range x.Sinks {
			allowed += len(s) + xdr.Pad(len(s))
		}
		most = min(most, allowed)
	}
	if known > most {
		k.mu.Unlock()
		k.Cancel(x, ErrReplyTooLong)
		return nil
	}
	if final {
		most = known
	}
	in := &incoming{x: x, xid: xid, most: most}
	c.in = in
	k.calls[xid] = c
	// layOut reads the exchange's memory, so it runs under k.mu, before the exchange can
	// end and take back its memory.
	in.layOut(m)
	k.mu.Unlock()
	return in
}

// layOut sets in.places to the buffers that receive the bytes of the reply, in order.
func (in *incoming) layOut(m []byte) {
	x := in.x
	words := in.most
	if at, n, ok := in.locate(m); ok {
		pad := xdr.Pad(n)
		in.from, in.to = at, at+n+pad
		words -= n + pad
		in.item = []xdr.Excised{{Position: uint32(at), Data: x.Sinks[0][:n]}}
		in.words = make([]byte, words)
		in.places = [][]byte{in.words[:at], x.Sinks[0][:n], in.padding[:pad], in.words[at:]}
		return
	}
	in.words = make([]byte, words)
	in.places = [][]byte{in.words}
}

// locate asks the exchange where the result for the first sink lies in the reply. It returns the
// offset at and the length n of that result, in bytes. ok is false if the result cannot go to the
// sink.
func (in *incoming) locate(m []byte) (at, n int, ok bool) {
	x := in.x
	if x.Locate == nil || len(x.Sinks) == 0 {
		return 0, 0, false
	}
	var d xdr.Decoder
	d.Reset(m, 0, nil)
	if _, _, err := rpc.ReadReply(&d); err != nil {
		return 0, 0, false
	}
	from := d.Position()
	at, n = x.Locate(d)
	ok = n > 0 && at >= from && at <= len(m) && n <= len(x.Sinks[0]) && n+xdr.Pad(n) <= in.most-at
	return at, n, ok
}

// complete ends the exchange of a reply that has arrived completely. size is the reply's length.
func (k *caller) complete(in *incoming, size int) {
	if k.claim(in.xid) != in.x {
		return
	}
	if in.item == nil {
		deliver(in.x, in.words[:size], nil)
		return
	}
	if size < in.to {
		in.x.Err = rpc.ErrBadReply
		in.x.Done(in.x)
		return
	}
	deliver(in.x, in.words[:size-(in.to-in.from)], in.item)
}
