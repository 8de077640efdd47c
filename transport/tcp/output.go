package tcp

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// A piece is a range of bytes to be written. When it is written, the output releases ref, unless
// ref is nil.
type piece struct {
	data []byte
	ref  xdr.Releaser
	// The field of is the exchange to which data belongs, or nil. When the exchange ends, the
	// output must no longer use data (takeBack).
	of *rpc.Exchange
}

// pieceCost is the size of a piece, in bytes.
const pieceCost = int(unsafe.Sizeof(piece{}))

// keptPieces limits the lists that a connection keeps for reuse while they are empty: at most twice as
// many pieces have room in them. Otherwise an idle connection would keep as much memory as it needed
// when its peer read no replies.
const keptPieces = 128

// pieces is a list of pieces.
type pieces []piece

// empty returns an empty list to be used in place of p, whose pieces are cleared.
func (p pieces) empty() pieces {
	if cap(p) > 2*keptPieces {
		return nil
	}
	return p[:0]
}

// words appends the bytes b, which lie in the memory k. If b directly follows the last piece in k,
// words extends that piece.
func (p *pieces) words(k counted, b []byte) {
	if n := len(*p); n > 0 {
		last := &(*p)[n-1]
		if last.ref == k && adjoin(last.data, b) {
			last.data = last.data[:len(last.data)+len(b)]
			return
		}
	}
	k.Retain()
	*p = append(*p, piece{data: b, ref: k})
}

// adjoin reports whether the bytes b directly follow the bytes a in memory.
func adjoin(a, b []byte) bool {
	return cap(a)-len(a) >= len(b) && len(b) > 0 && &a[:len(a)+1][len(a)] == &b[0]
}

var zeros [4]byte

// message appends a record to p and returns the record's length in bytes. b has the record mark and
// the words, which are the record's data except for the payloads; the payloads go between the
// words. k is the memory in which b lies, or nil. The parameter of is the exchange to which the
// payloads belong, or nil.
func (p *pieces) message(k counted, b []byte, payloads []xdr.Payload, of *rpc.Exchange) (size int) {
	put := func(b []byte) {
		switch {
		case len(b) == 0:
		case k != nil:
			p.words(k, b)
		default:
			*p = append(*p, piece{data: b})
		}
	}
	at := 0
	for i := range payloads {
		pl := &payloads[i]
		put(b[at : markSize+pl.Position])
		at = markSize + pl.Position
		if len(pl.Data) == 0 {
			if pl.Ref != nil {
				pl.Ref.Release()
			}
			continue
		}
		*p = append(*p, piece{data: pl.Data, ref: pl.Ref, of: of})
		size += len(pl.Data)
		if n := xdr.Pad(len(pl.Data)); n > 0 {
			*p = append(*p, piece{data: zeros[:n:n]})
			size += n
		}
	}
	put(b[at:])
	return size + len(b)
}

func (p pieces) release() {
	for i := range p {
		if p[i].ref != nil {
			p[i].ref.Release()
		}
		p[i] = piece{}
	}
}

// output is a connection's queue of bytes to be written. One goroutine at a time writes: a
// goroutine that calls flush or pushAndUnlock or, while the stream takes no more, a goroutine
// that waits for the stream (transmit).
type output struct {
	conn    *conn
	queued  atomic.Int64  // bytes that wait to be written
	written atomic.Uint64 // bytes written so far

	mu      sync.Mutex
	still   sync.Cond // signals the end of a write
	queue   pieces
	head    int
	chunk   *chunk
	held    bool // the receiving goroutine called hold and will flush
	writing bool // true while a goroutine is the writer
	inWrite bool // true during a write to the stream
	waits   bool // true if the writer is transmit, which waits for the stream
	closed  bool
	heap    int // bytes of the queue on the Go heap
	owed    int // bytes that are charged to the ledger
	writers sync.WaitGroup
	bufs    [][]byte // only the writer uses it
	done    pieces   // written pieces to release; only the writer uses it
}

// hold makes the output keep appended messages in the queue until flush is called.
func (o *output) hold() {
	o.mu.Lock()
	o.held = true
	o.mu.Unlock()
}

// appendBatch appends the pieces of a batch to the queue, and empties the batch. size is their
// total length in bytes.
func (o *output) appendBatch(batch *pieces, size int) {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		batch.release()
		*batch = batch.empty()
		return
	}
	o.queue = append(o.queue, *batch...)
	o.queued.Add(int64(size))
	o.heap += batch.heap()
	o.chargeAndUnlock()
	clear(*batch)
	*batch = batch.empty()
}

// smallReply is the largest size of a message's words, in bytes, that the output copies into a
// chunk that several messages share. A short reply may wait for a long time, and must not keep a
// much larger chunk of its own in memory.
const smallReply = chunkSize / 2

// appendLocked appends one message to the queue; pushAndUnlock writes the queue. b has the message's
// record mark and words. If b has up to smallReply bytes, they are copied. Otherwise they stay where
// they are: in k or, if k is nil, on the Go heap. of is the exchange that owns the payloads, or nil. A
// closed output drops the message.
func (o *output) appendLocked(k counted, b []byte, payloads []xdr.Payload, of *rpc.Exchange) {
	if o.closed {
		for i := range payloads {
			if payloads[i].Ref != nil {
				payloads[i].Ref.Release()
			}
		}
		return
	}
	if len(b) <= smallReply {
		k, b = gather(&o.chunk, b)
	}
	from := len(o.queue)
	last := 0 // bytes on the Go heap in the last piece, which the words may extend
	if from > 0 {
		from--
		last = o.queue[from].heap()
	}
	o.queued.Add(int64(o.queue.message(k, b, payloads, of)))
	o.heap += o.queue[from:].heap() - last
}

// pushAndUnlock writes the queue, unless the receiving goroutine has called hold and will flush.
func (o *output) pushAndUnlock() {
	if o.held {
		o.chargeAndUnlock()
		return
	}
	o.writeAndUnlock(o.conn.gathers())
}

// heap returns how many bytes of the pieces are on the Go heap.
func (p pieces) heap() (n int) {
	for i := range p {
		n += p[i].heap()
	}
	return n
}

func (p *piece) heap() int {
	if p.ref == nil && p.of == nil {
		return len(p.data)
	}
	if _, ok := p.ref.(*chunk); ok {
		return len(p.data)
	}
	return 0
}

// chargeAndUnlock unlocks o.mu, and makes the ledger count the bytes on the heap that wait for the
// peer, and the queue itself. Bytes that are sent at once are not charged. It wakes a receiving goroutine
// that waits until less is queued or charged.
func (o *output) chargeAndUnlock() {
	now := 0
	if o.waits && !o.closed {
		now = o.heap + cap(o.queue)*pieceCost
	}
	more := now - o.owed
	o.owed = now
	o.mu.Unlock()
	o.conn.ledger.Add(more)
	o.conn.free()
}

// flush undoes hold, and writes as much as the stream takes. If apart is set, another goroutine
// writes, and the caller continues at once.
func (o *output) flush(apart bool) {
	o.mu.Lock()
	o.held = false
	o.writeAndUnlock(apart)
}

// writeAndUnlock writes the queue, unless another goroutine is doing so. If apart is set, a new
// goroutine writes, and also writes the messages that are appended before it runs.
func (o *output) writeAndUnlock(apart bool) {
	if o.writing || o.closed || o.head == len(o.queue) {
		o.chargeAndUnlock() // what was appended may wait for the peer behind the writer
		return
	}
	o.writing = true
	if apart || o.stepLocked() {
		o.waits = true
		o.writers.Add(1)
		o.chargeAndUnlock()
		go o.transmit()
		return
	}
	o.chargeAndUnlock()
}

// transmit writes the whole queue. Whenever the stream takes no more, transmit waits until
// it does.
func (o *output) transmit() {
	defer o.writers.Done()
	err := o.conn.stream.transmit(func() bool {
		o.mu.Lock()
		defer o.chargeAndUnlock()
		return o.stepLocked()
	})
	if err != nil {
		o.conn.kill(err)
	}
}

// stepLocked writes until the queue is empty, or until the stream takes no more. If the stream
// takes no more, stepLocked returns true, and the caller is still the writer. It unlocks o.mu
// during the write and while it releases memory.
func (o *output) stepLocked() (more bool) {
	for o.head < len(o.queue) && !o.closed {
		o.bufs = o.bufs[:0]
		for _, p := range o.queue[o.head:min(len(o.queue), o.head+maxBufs)] {
			o.bufs = append(o.bufs, p.data)
		}
		o.inWrite = true
		mayBlock := o.waits
		o.mu.Unlock()
		n, err := o.conn.stream.tryWrite(o.bufs, mayBlock)
		clear(o.bufs)
		o.mu.Lock()
		o.inWrite = false
		o.wroteLocked(n)
		if o.closed && o.waits {
			o.done = append(o.done, o.queue[o.head:]...)
			o.queue, o.head = nil, 0
		}
		o.still.Broadcast()
		if len(o.done) > 0 {
			o.mu.Unlock()
			o.done.release()
			o.done = o.done.empty()
			o.conn.free()
			o.mu.Lock()
		}
		if err == errAgain && !o.closed {
			return true
		}
		if err != nil && !o.closed {
			o.writing, o.waits = false, false
			o.mu.Unlock()
			o.conn.kill(err)
			o.mu.Lock()
			return false
		}
	}
	o.writing, o.waits = false, false
	if cap(o.bufs) > 2*keptPieces {
		o.bufs = nil
	}
	if o.head == len(o.queue) && o.chunk != nil {
		drop(&o.chunk)
	}
	return false
}

// wroteLocked removes the first n bytes from the queue.
func (o *output) wroteLocked(n int) {
	if n == 0 {
		return
	}
	o.written.Add(uint64(n))
	o.queued.Add(-int64(n))
	for n > 0 {
		p := &o.queue[o.head]
		if n < len(p.data) {
			o.heap -= p.heap()
			p.data = p.data[n:]
			o.heap += p.heap()
			break
		}
		n -= len(p.data)
		o.heap -= p.heap()
		o.done = append(o.done, *p)
		*p = piece{}
		o.head++
	}
	if o.head == len(o.queue) {
		o.queue, o.head = o.queue.empty(), 0
	} else if o.head > 4096 {
		rest := copy(o.queue, o.queue[o.head:])
		clear(o.queue[rest:])
		o.queue, o.head = o.queue[:rest], 0
	}
}

// shut drops the queue. After that, only a goroutine in stream.transmit may still use the stream.
// That goroutine ends when the stream is closed.
func (o *output) shut() {
	o.mu.Lock()
	o.closed = true
	for o.inWrite && !o.waits {
		o.still.Wait()
	}
	var left pieces
	if !o.inWrite { // otherwise the writer still reads from the queue, and releases it
		left = o.queue[o.head:]
		o.queue, o.head = nil, 0
	}
	o.queued.Store(0)
	drop(&o.chunk)
	o.chargeAndUnlock()
	left.release()
}

// takeBack makes sure that the output reads the memory of x no more: it copies the part that is not
// written yet. If a write is under way, it waits for its end, also if the output is closed: conn.run then
// closes the stream, which ends the write.
func (o *output) takeBack(x *rpc.Exchange) {
	o.mu.Lock()
	for o.inWrite {
		o.still.Wait()
	}
	var done pieces
	for i := o.head; i < len(o.queue); i++ {
		if p := &o.queue[i]; p.of == x {
			done = append(done, *p)
			o.heap -= p.heap()
			*p = piece{data: append([]byte(nil), p.data...)}
			o.heap += p.heap()
		}
	}
	o.chargeAndUnlock()
	done.release()
}

// chunkSize is the size of a chunk, in bytes.
const chunkSize = 64 << 10

// A counted is memory with a reference count: a chunk or payload memory. Each piece of it that
// waits to be written holds a reference.
type counted interface {
	Retain()
	Release()
}

// A chunk is memory with a reference count, for the words of messages to be sent. Words are the
// encoded bytes of a message other than payload. Each piece that waits to be written holds a
// reference, and so does the connection or output that appends words to the chunk.
type chunk struct {
	refs atomic.Int32
	used int
	b    [chunkSize]byte
}

var chunks = sync.Pool{New: func() any { return new(chunk) }}

// newChunk returns an empty chunk with one reference.
func newChunk() *chunk {
	k := chunks.Get().(*chunk)
	k.used = 0
	k.refs.Store(1)
	return k
}

// Retain implements counted.
func (k *chunk) Retain() { k.refs.Add(1) }

// Release implements counted.
func (k *chunk) Release() {
	if k.refs.Add(-1) == 0 {
		chunks.Put(k)
	}
}

// tail returns a chunk with room for n more bytes. If all bytes of *k were sent, tail first empties
// *k. If *k then has enough room, tail returns *k. Otherwise it makes a new chunk, and sets *k to
// it. n is at most chunkSize.
func tail(k **chunk, n int) *chunk {
	now := *k
	switch {
	case now == nil:
		*k = newChunk()
	case now.refs.Load() == 1:
		now.used = 0
	}
	if now = *k; n > chunkSize-now.used {
		now.Release()
		*k = newChunk()
	}
	return *k
}

// gather copies b to the end of the chunk *k, or to a new chunk if *k has too little room. It
// returns the chunk and the copy.
func gather(k **chunk, b []byte) (*chunk, []byte) {
	now := tail(k, len(b))
	at := now.used
	now.used += copy(now.b[at:], b)
	return now, now.b[at:now.used]
}

// drop releases a reference to *k, if *k is not nil, and sets *k to nil.
func drop(k **chunk) {
	if *k != nil {
		(*k).Release()
		*k = nil
	}
}
