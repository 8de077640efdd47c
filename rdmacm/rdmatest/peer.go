package rdmatest

import (
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// Guard is the time that a Peer waits before it declares a test hung. It is no requirement on
// the speed of providers.
const Guard = 30 * time.Second

// A Message is a message that a Peer received.
type Message struct {
	Bytes       []byte
	Invalidated uint32
}

// A Peer is a scripted end of a connection: it sends the bytes that the test gives it, exposes
// memory, promises receives, and records the messages that it receives. It works on every
// provider. The test's goroutine calls its methods. A method that cannot do its task fails the
// test.
type Peer struct {
	t        testing.TB
	conn     rdmacm.Conn
	ready    chan struct{}
	receives int // size of each receive, in bytes

	// received, if not nil, is called for each message. The Peer then records no messages.
	received func(p *Peer, r *rdmacm.Recv)

	mu       sync.Mutex
	arrived  sync.Cond
	messages []Message
	next     int
	closed   int
	cause    error
	overdue  bool
}

// PeerParam are the parameters of a Peer's connection. Handler must be nil, because the Peer is
// the Handler.
type PeerParam struct {
	rdmacm.ConnParam
	// Received, if not nil, is called for each message, and must release it. The Peer then
	// records no messages.
	Received func(p *Peer, r *rdmacm.Recv)
}

func newPeer(t testing.TB, param *PeerParam) *Peer {
	if param.Handler != nil {
		panic("rdmatest: a Peer is its own Handler")
	}
	if param.ReceiveSize == 0 {
		param.ReceiveSize = 4096
	}
	p := &Peer{t: t, ready: make(chan struct{}), receives: param.ReceiveSize, received: param.Received}
	p.arrived.L = &p.mu
	param.Handler = peerHandler{p}
	return p
}

func (p *Peer) begin(c rdmacm.Conn) {
	p.conn = c
	close(p.ready)
	p.t.Cleanup(func() {
		c.Abort(nil)
		p.awaitEnd()
	})
}

// DialPeer connects a Peer to addr. The connection ends with the test.
func DialPeer(t testing.TB, provider rdmacm.Provider, addr netip.AddrPort, param PeerParam) *Peer {
	t.Helper()
	p := newPeer(t, &param)
	c, err := provider.Dial(t.Context(), addr, param.ConnParam)
	if err != nil {
		t.Fatalf("dial %v: %v", addr, err)
	}
	p.begin(c)
	return p
}

// AcceptPeer accepts the next connection of l, and returns the Peer at this end of it. The
// connection ends with the test.
func AcceptPeer(t testing.TB, l rdmacm.Listener, param PeerParam) *Peer {
	t.Helper()
	p := newPeer(t, &param)
	r, err := l.Accept()
	if err != nil {
		t.Fatalf("accept at %v: %v", l.Addr(), err)
	}
	c, err := r.Accept(param.ConnParam)
	if err != nil {
		t.Fatalf("accept %v: %v", r.Peer(), err)
	}
	p.begin(c)
	return p
}

// Conn waits for the connection, and returns it, for calls for which the Peer has no method.
func (p *Peer) Conn() rdmacm.Conn {
	within(p.t, "the connection is set up", p.ready)
	return p.conn
}

// An Outcome holds the arguments of Done of a chain.
type Outcome struct {
	Err    error
	Failed int
}

// Post posts one chain and does not wait. The returned channel gets the arguments of Done.
func (p *Peer) Post(work ...rdmacm.Work) <-chan Outcome {
	out := make(chan Outcome, 1)
	p.Conn().Post(&rdmacm.Chain{Work: work, Done: func(_ *rdmacm.Chain, err error, failed int) {
		out <- Outcome{err, failed}
	}})
	return out
}

// Do posts one chain and waits until its Done is called.
func (p *Peer) Do(work ...rdmacm.Work) Outcome {
	p.t.Helper()
	return p.await(p.Post(work...))
}

func (p *Peer) await(out <-chan Outcome) Outcome {
	p.t.Helper()
	return within(p.t, "the chain comes back", out)
}

// Send sends b as one message, and returns the error that Done gets.
func (p *Peer) Send(b []byte) error {
	p.t.Helper()
	return p.Do(SendOf(b)).Err
}

// SendInvalidate sends b as one message, which invalidates stag of the other side. It returns the
// error that Done gets.
func (p *Peer) SendInvalidate(b []byte, stag uint32) error {
	p.t.Helper()
	return p.Do(rdmacm.Work{Op: rdmacm.OpSendInvalidate, Local: [][]byte{b}, Invalidate: stag}).Err
}

// Write writes b to the peer's memory by an RDMA Write. The parameter to names the memory.
func (p *Peer) Write(to rdmacm.Remote, b []byte) error {
	p.t.Helper()
	return p.Do(WriteOf(to, b)).Err
}

// Read reads n bytes of the peer's memory by an RDMA Read. The parameter from names the memory.
func (p *Peer) Read(from rdmacm.Remote, n int) ([]byte, error) {
	p.t.Helper()
	b := make([]byte, n)
	err := p.Do(ReadOf(from, b)).Err
	return b, err
}

// SendOf returns the work request of a Send.
func SendOf(pieces ...[]byte) rdmacm.Work {
	return rdmacm.Work{Op: rdmacm.OpSend, Local: pieces}
}

// WriteOf returns the work request of an RDMA Write.
func WriteOf(to rdmacm.Remote, pieces ...[]byte) rdmacm.Work {
	return rdmacm.Work{Op: rdmacm.OpWrite, Local: pieces, Remote: to}
}

// ReadOf returns the work request of an RDMA Read into pieces.
func ReadOf(from rdmacm.Remote, pieces ...[]byte) rdmacm.Work {
	return rdmacm.Work{Op: rdmacm.OpRead, Local: pieces, Remote: from}
}

// At returns the address (STag and offset) by which the other side names the memory at an offset in
// the region.
func At(r rdmacm.Region, offset int) rdmacm.Remote {
	return rdmacm.Remote{STag: r.STag(), Offset: r.Offset() + uint64(int64(offset))}
}

// Expose registers memory, so that the other side can access it.
func (p *Peer) Expose(memory []byte, access rdmacm.Access) rdmacm.Region {
	p.t.Helper()
	r, err := p.Conn().Register(memory, access)
	if err != nil {
		p.t.Fatalf("register %d bytes: %v", len(memory), err)
	}
	return r
}

// Promise provides n more receives of the size given at set-up.
func (p *Peer) Promise(n int) { p.Conn().Provide(n, p.receives) }

// Receive waits for the next message.
func (p *Peer) Receive() Message {
	p.t.Helper()
	m, ok := p.receive()
	if !ok {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.t.Fatalf("message %d does not come; the connection's end: %v", p.next, p.cause)
	}
	return m
}

func (p *Peer) receive() (Message, bool) {
	defer p.watch()()
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.next == len(p.messages) && p.closed == 0 && !p.overdue {
		p.arrived.Wait()
	}
	if p.next == len(p.messages) {
		return Message{}, false
	}
	p.next++
	return p.messages[p.next-1], true
}

// Messages returns all messages that were received so far, in order.
func (p *Peer) Messages() []Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.messages)
}

// End waits for the end of the connection, and returns the error that Closed got.
func (p *Peer) End() error {
	p.t.Helper()
	if !p.awaitEnd() {
		p.t.Fatal("the connection does not end")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cause
}

func (p *Peer) awaitEnd() bool {
	guard := time.NewTimer(Guard)
	defer guard.Stop()
	select {
	case <-p.Conn().Done():
		return true
	case <-guard.C:
		return false
	}
}

// watch wakes the goroutines that wait for p when Guard has passed, unless stop is called
// before.
func (p *Peer) watch() (stop func()) {
	timer := time.AfterFunc(Guard, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.overdue = true
		p.arrived.Broadcast()
	})
	return func() { timer.Stop() }
}

// Seen returns the work that the other side carried out at this side: each Send, RDMA Read and
// RDMA Write that had its effect, in order. It works only on in-memory providers.
func (p *Peer) Seen() []Event {
	c := p.Conn().(*Conn)
	return c.provider.log.Find(Is(KindCarried, c.other.id))
}

// peerHandler is the Handler of a Peer. It is a separate type, so that the Handler's methods
// are not methods of Peer.
type peerHandler struct{ p *Peer }

func (h peerHandler) Received(r *rdmacm.Recv) {
	p := h.p
	p.mu.Lock()
	if p.closed > 0 {
		p.t.Error("Received after Closed")
	}
	p.mu.Unlock()
	if p.received != nil {
		p.received(p, r)
		return
	}
	m := Message{Bytes: slices.Clone(r.Bytes), Invalidated: r.Invalidated}
	r.Release()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.messages = append(p.messages, m)
	p.arrived.Broadcast()
}

func (h peerHandler) Closed(err error) {
	h.p.mu.Lock()
	defer h.p.mu.Unlock()
	if h.p.closed++; h.p.closed > 1 {
		h.p.t.Error("Closed is called twice")
	}
	h.p.cause = err
	h.p.arrived.Broadcast()
}
