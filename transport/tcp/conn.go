package tcp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/internal/doorway"
	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// ErrNoRecord means that the first bytes from the peer are not the beginning of a record that this side
// accepts (RFC 5531 §11).
var ErrNoRecord = fmt.Errorf("%w: the peer does not speak RPC", errRecordTooLong)

// Reasons for the end of a connection.
var (
	errStalledRecord = errors.New("tcp: peer stopped in the middle of a record")
	errSlowRecord    = errors.New("tcp: peer takes too long for one record")
	errStalledOutput = errors.New("tcp: peer does not read")
	errUnanswered    = errors.New("tcp: calls of a peer that has closed its side are not answered in time")
	errIdle          = errors.New("tcp: connection was idle")
	errReset         = errors.New("tcp: peer reset the connection")
	errLeft          = errors.New("tcp: peer closed its side while its calls waited")
	errRecordTooLong = errors.New("tcp: record exceeds the limit")
	errLeftAlone     = errors.New("tcp: peer closed the connection")
	errClosing       = errors.New("tcp: closed on this side")
	errEnded         = errors.New("tcp: ended by the program that was called")
	errNoMemory      = errors.New("tcp: record exceeds what memory allows")
)

// States of a connection's receiving goroutine.
const (
	atWork      int32 = iota // working, or waiting for something other than the peer
	betweenRecs              // waiting for a record
	insideRec                // waiting for the rest of a record
	settling                 // waiting for the answers to calls, after the end of the input
	draining                 // waiting until the peer has all answers, after the end of the input
)

// conn is one connection.
type conn struct {
	cfg    *Config
	rpc    *rpc.Server // nil if calls of the peer are not served
	peer   *rpc.Conn
	stream stream
	out    output
	share  *mem.Share
	ledger mem.Ledger
	seat   *census.Seat // nil if the connection is not a Server's
	count  *counters
	caller caller

	gone     chan struct{} // closed when the connection ends
	cause    atomic.Pointer[error]
	leaving  atomic.Bool  // true if no more calls are read, but those under way are answered
	inFlight atomic.Int64 // number of calls for which detach was called and ended was not
	freed    chan struct{}
	blocked  atomic.Bool // true while the receiving goroutine waits for freed
	stopped  atomic.Bool // true while the receiving goroutine does not read, and waits in step
	doing    atomic.Int32
	records  atomic.Uint64 // number of records begun
	received atomic.Uint64 // number of bytes received

	receiver
	mark   deadlines // only the sweeper uses it
	kernel kernelOutput
}

func newConn(cfg *Config, count *counters, st stream, s *rpc.Server, peer *rpc.Conn) *conn {
	c := &conn{
		cfg: cfg, rpc: s, count: count, peer: peer,
		stream: st,
		gone:   make(chan struct{}),
		freed:  make(chan struct{}, 1),
	}
	if cfg.Pool != nil {
		c.share = cfg.Pool.OpenShare(clientaddr.Of(peer.Peer.Addr()), c)
		c.ledger.Open(c.share)
	}
	c.lent.Address = clientaddr.Of(peer.Peer.Addr())
	c.out.conn, c.out.still.L = c, &c.out.mu
	if _, ok := st.(*socket); ok { // polling needs reads that do not block
		c.member.Join(cfg.Polls)
	}
	c.caller.init(c)
	peer.SetCaller(&c.caller)
	return c
}

// run serves the connection to its end, unless over is false: then another goroutine has taken over
// the connection, and the caller must not use it any more.
func (c *conn) run() (over bool, why error) {
	c.doing.Store(betweenRecs)
	over, err := c.receives()
	if !over {
		return false, nil
	}
	if c.mistake != nil {
		c.hold()
	}
	if c.leaving.Load() && errors.Is(err, os.ErrDeadlineExceeded) {
		err = errClosing // leave has interrupted the receiving goroutine: the peer has done nothing
	}
	if c.cause.Load() == nil && (err == nil || err == io.EOF || c.leaving.Load()) {
		c.settle()
		c.drain()
		c.linger()
	}
	c.kill(err)
	c.peer.Close()
	c.out.shut()
	c.stream.close(c.thrownOut())
	c.kernel.end(c)
	c.out.writers.Wait()
	// No goroutine reads or writes any more, so the memory of the exchanges may be used again.
	c.caller.lose(*c.cause.Load())
	if c.share != nil {
		c.share.Close()
	}
	c.drop()
	return true, *c.cause.Load()
}

// settle waits until all calls under way are answered and the answers sent. It gives the ring back
// first, because a stuck disk may delay the answers.
func (c *conn) settle() {
	c.records.Add(1) // the deadline for the answers starts now
	c.doing.Store(settling)
	c.sendBatch()
	c.out.flush(false)
	c.giveBack()
	c.until(func() bool { return c.inFlight.Load() == 0 && c.out.queued.Load() == 0 })
}

// drain waits until the peer has acknowledged the output, so that the connection has its seat, and what the
// kernel keeps for it counts, until then. The sweep ends the connection if the peer acknowledges nothing, and
// the Census if it needs the seat.
func (c *conn) drain() {
	c.doing.Store(draining)
	c.blocked.Store(true)
	defer c.blocked.Store(false)
	// Nothing wakes a goroutine at an acknowledgement.
	for pause := firstLook; c.seat != nil && !c.leaving.Load() && c.stream.unacked() > 0; pause = min(2*pause, time.Second) {
		if reset, _ := c.stream.gone(); reset {
			return
		}
		select {
		case <-time.After(pause):
		case <-c.freed:
		case <-c.gone:
			return
		}
	}
}

// firstLook is how long drain waits before it asks the kernel again.
const firstLook = time.Millisecond

// thrownOut reports whether this side ended the connection because of something that the peer did, or because
// another connection needs its place, or whether the peer has stopped reading. The output that the kernel keeps
// for such a peer is discarded: nothing would count it any more, and a peer that does not read could have any
// amount of it, from one connection after another.
func (c *conn) thrownOut() bool {
	switch why := *c.cause.Load(); why {
	case io.EOF, errClosing:
		return false
	case errIdle, errEnded:
		return c.kernel.charged.Load() > 0
	}
	return true
}

// linger sends a FIN on a connection that this side leaves, and waits until the peer has closed its
// side too, because TCP discards the last output if a descriptor with unread input is closed. It reads
// into a small buffer: it may wait for long, so a ring would be missed by others.
func (c *conn) linger() {
	if !c.leaving.Load() || c.dead() {
		return
	}
	c.stream.closeWrite()
	c.stream.resume()
	if c.dead() {
		return // resume has undone kill's interrupt
	}
	c.records.Add(1)
	c.doing.Store(insideRec) // the deadline for a record applies
	var unread [lingerBuffer]byte
	c.stream.receive(func() bool {
		for {
			n, more, err := c.stream.tryRead(unread[:])
			c.received.Add(uint64(n))
			if err != nil || !more {
				return (err == nil || err == errAgain) && !c.dead()
			}
		}
	})
}

// lingerBuffer is how many bytes linger reads at once.
const lingerBuffer = 512

// leave stops reading calls, and ends the connection as soon as the calls under way are answered.
func (c *conn) leave() {
	if !c.leaving.Swap(true) {
		c.stream.interrupt()
		c.free()
	}
}

// hold keeps the connection of a peer that does not speak RPC open for a time, without reading from it.
func (c *conn) hold() {
	c.r, c.w, c.within = 0, 0, false // nothing is kept of what came
	c.giveBack()
	t := time.NewTimer(doorway.Hold)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.gone:
	}
	c.kill(fmt.Errorf("%w: %w", ErrNoRecord, c.mistake))
}

// kill ends the connection because of err. It does not wait.
func (c *conn) kill(err error) {
	if err == nil {
		err = io.EOF
	}
	if c.cause.CompareAndSwap(nil, &err) {
		close(c.gone)
		c.stream.interrupt()
	}
}

// abort ends the connection because this side closes it.
func (c *conn) abort() { c.kill(errClosing) }

func (c *conn) dead() bool { return c.cause.Load() != nil }

// free wakes the receiving goroutine if it waits in the method until.
func (c *conn) free() {
	if c.blocked.Load() {
		select {
		case c.freed <- struct{}{}:
		default:
		}
	}
}

// until waits until the function met returns true or the connection ends. Code that can make met
// return true has to call free afterwards.
func (c *conn) until(met func() bool) {
	for !met() {
		c.blocked.Store(true)
		if !met() {
			select {
			case <-c.freed:
			case <-c.gone:
				c.blocked.Store(false)
				return
			}
		}
		c.blocked.Store(false)
	}
}

// Progress implements mem.Holder: while memory is short, the pool asks whether the peer makes
// progress. The connection waits for its peer in the middle of a record, and while the peer does not
// read replies.
func (c *conn) Progress() (moved uint64, waitsForPeer bool) {
	doing := c.doing.Load()
	return c.received.Load() + c.out.written.Load() + c.kernel.acked.Load(),
		doing == insideRec || doing == draining || c.out.queued.Load() > 0 || c.kernel.charged.Load() > 0
}

// End implements mem.Holder and census.Holder.
func (c *conn) End(why error) { c.kill(why) }

// Busy implements census.Holder: it reports whether a call is under way, or the receiving goroutine
// waits for something other than the peer.
func (c *conn) Busy() bool {
	doing := c.doing.Load()
	return c.inFlight.Load() > 0 || doing == atWork || doing == settling
}

// detach notes that k is no longer served by the receiving goroutine, but by another one.
func (c *conn) detach(k *call) {
	c.inFlight.Add(1)
	if c.current == k {
		c.current = nil
	}
}

// gathers reports whether to write a reply later, together with the replies of other calls that are
// under way (Config.Gather).
func (c *conn) gathers() bool { return c.cfg.Gather && c.inFlight.Load() > 1 }

// ended notes the end of a call for which detach was called.
func (c *conn) ended() {
	c.inFlight.Add(-1)
	c.free()
}

// work makes the receiving goroutine go on after a wait, or after a flush of the output.
func (c *conn) work() {
	c.doing.Store(atWork)
	c.out.hold()
}

// gate waits until the connection may begin another call. If the gathered replies are too many, too
// long or in too many pieces, it first sends them. While memory is short, fewer bytes may wait for a peer that does not
// read. It returns false if the connection has ended.
func (c *conn) gate() bool {
	most, batch := int64(c.cfg.MaxQueue), batchLimit
	if c.cfg.Pool != nil && c.cfg.Pool.Pressed() {
		most, batch = min(most, pressedQueue), pressedBatch
	}
	if c.batched > batch || len(c.batch) >= keptPieces || c.changes >= batchChanges {
		// If the batch has more than batchLimit bytes, another goroutine sends it. To copy fewer bytes
		// into the socket takes no longer than to wake a thread. A peer that has not proved to be a
		// client yet gets no such goroutine.
		apart := c.batched > batchLimit && c.peer.Known()
		c.sendBatch()
		c.out.flush(apart)
		c.out.hold()
	}
	if c.full(most) {
		c.count.gated.Add(1)
		c.pause()
		c.step(func() { c.until(func() bool { return !c.full(most) }) })
		c.out.hold()
	}
	return !c.dead()
}

// full reports whether the connection must not begin another call now: it has too many calls under
// way, its client's calls occupy too much memory (mem.Share.Full), or more than most bytes of replies
// wait. The end of a call or a reply wakes a connection that waits for this to change, but memory
// that other connections release does not; then only the sweeper does.
func (c *conn) full(most int64) bool {
	calls := c.inFlight.Load()
	return calls >= int64(c.cfg.MaxInFlight) || c.out.queued.Load() > most || c.share != nil && c.share.Full(calls)
}

// Limits while memory is short, in bytes: pressedQueue for the replies of a connection that wait to
// be sent, pressedBatch for the replies that one write gathers.
const (
	pressedQueue = 32 << 10
	pressedBatch = 8 << 10
)

// pause sends the gathered replies (receiver.batch), before the receiving goroutine waits.
func (c *conn) pause() {
	c.sendBatch()
	c.out.flush(false)
}

// sendBatch moves the gathered replies (receiver.batch) to the output.
func (c *conn) sendBatch() {
	if len(c.batch) > 0 {
		c.out.appendBatch(&c.batch, c.batched)
		c.batched, c.changes = 0, 0
	}
}

// reserve waits for size bytes of memory, which count for the Group in, if it is not nil. If the
// connection ends first, it returns errClosing; another error means that the pool can never grant so
// much.
func (c *conn) reserve(size int, in *mem.Group) (*mem.Buffer, error) {
	type grant struct {
		b   *mem.Buffer
		err error
	}
	c.pause()
	got := make(chan grant, 1)
	r := &mem.Request{Size: size, Group: in, Granted: func(_ *mem.Request, b *mem.Buffer, err error) { got <- grant{b, err} }}
	c.share.Get(r)
	var g grant
	select {
	case g = <-got:
	case <-c.gone:
		if c.share.Cancel(r) {
			return nil, errClosing
		}
		g = <-got
	}
	c.out.hold()
	return g.b, g.err
}

// addrPort returns the address and port of a, or the zero AddrPort if a is not a TCP address.
func addrPort(a net.Addr) netip.AddrPort {
	if t, ok := a.(*net.TCPAddr); ok {
		ap := t.AddrPort()
		return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	}
	return netip.AddrPort{}
}
