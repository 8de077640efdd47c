package nfs41

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// maxConns is how many connections of a session are remembered. Where no protection
// asks for it, those beyond serve as well.
const maxConns = 128

// A Session is one of a client's (RFC 8881 §2.10).
type Session struct {
	ID         wire.SessionID4
	client     *client
	minor      *Minor
	fore, back channel
	// minorVersion is the one that the session was made in.
	minorVersion uint32
	// share is that of the address which made the session.
	share *share
	// slots are made when they are used first.
	slots []atomic.Pointer[slot]
	ended atomic.Bool
	// held is what its slots beyond the first hold of the memory for replies, in bytes.
	held atomic.Int64
	// wanted: the client bound a connection to the backchannel, and expects it to work.
	wanted atomic.Bool
	// answered: the client has answered a call. down: it does not any more. fault: its
	// answers make no sense.
	answered, down, fault atomic.Bool
	// conns are those bound to the session. The list is replaced, never changed.
	conns atomic.Pointer[[]*binding]

	security atomic.Pointer[security]

	// mu guards what follows, and is held while conns or security is replaced.
	mu      sync.Mutex
	program uint32
	calls   calls
}

// A binding is a connection of a session, and which channels it carries.
type binding struct {
	conn       *rpc.Conn
	fore, back bool
	cost       int64  // what it has taken of the memory for replies
	forget     func() // guarded by the session's mutex; nil: not known yet
}

// Client is whose session it is.
func (s *Session) Client() *state.Client { return s.client.Client }

// reserve sets memory aside for the session, which an address is about to make, and for as
// many slots as it gets. It is false where there is none left.
func (s *Session) reserve(from netip.Addr) bool {
	slots, share := s.minor.cache.session(from, int(s.fore.Maxrequests), s.fore.maxCached())
	if share == nil {
		return false
	}
	s.share, s.fore.Maxrequests = share, uint32(slots)
	return true
}

// giveBack is for what reserve set aside.
func (s *Session) giveBack() {
	s.minor.cache.endSession(s.share, int(s.fore.Maxrequests), s.fore.maxCached())
}

// begin makes the session ready.
func (s *Session) begin() {
	s.slots = make([]atomic.Pointer[slot], s.fore.Maxrequests)
	s.conns.Store(&[]*binding{})
	s.calls.begin(&s.back)
}

// busy says that a request is under way.
func (s *Session) busy() bool {
	for i := range s.slots {
		if sl := s.slots[i].Load(); sl != nil && sl.running() {
			return true
		}
	}
	return false
}

// end makes an end of a session that is in the table. The function that
// took it away from its client calls it, once. Requests that are under way run on.
func (s *Session) end() {
	s.ended.Store(true)
	s.minor.sessions.remove(s)
	s.mu.Lock()
	old := *s.conns.Load()
	s.conns.Store(&[]*binding{})
	var forget []func()
	for _, b := range old {
		s.minor.cache.account(s.share, -b.cost)
		if b.forget != nil {
			forget = append(forget, b.forget)
		}
	}
	s.mu.Unlock()
	for _, f := range forget {
		f()
	}
	s.endCalls()
	for i := range s.slots {
		if sl := s.slots[i].Load(); sl != nil {
			sl.end()
		}
	}
	s.giveBack()
}

// binding is that of a connection, or nil.
func (s *Session) binding(c *rpc.Conn) *binding {
	for _, b := range *s.conns.Load() {
		if b.conn == c {
			return b
		}
	}
	return nil
}

// bound says that a connection of the session lives.
func (s *Session) bound() bool { return len(*s.conns.Load()) > 0 }

// bind binds a connection to channels of the session, until it is closed; a binding that
// it has already is widened. It is false where there are too many.
func (s *Session) bind(c *rpc.Conn, fore, back bool) bool {
	if back {
		s.wanted.Store(true)
		s.down.Store(false)
	}
	b := &binding{conn: c, fore: fore, back: back}
	s.mu.Lock()
	list := slices.Clone(*s.conns.Load())
	i := slices.IndexFunc(list, func(b *binding) bool { return b.conn == c })
	switch {
	case s.ended.Load() || i < 0 && len(list) >= maxConns:
		s.mu.Unlock()
		return false
	case i >= 0:
		old := list[i]
		b.fore, b.back, b.forget, b.cost = b.fore || old.fore, b.back || old.back, old.forget, old.cost
		list[i] = b
		s.conns.Store(&list)
		s.mu.Unlock()
		return true
	}
	if len(list) > 0 { // the first one is the session's own
		if !s.minor.cache.take(s.share, bindingCost) {
			s.mu.Unlock()
			return false
		}
		b.cost = bindingCost
	}
	list = append(list, b)
	s.conns.Store(&list)
	s.mu.Unlock()

	// Without the mutex: a connection that is closed calls at once.
	forget := c.OnClose(func() { s.unbind(c) })
	s.mu.Lock()
	b = s.binding(c)
	if b != nil {
		b.forget = forget
	}
	s.mu.Unlock()
	if b == nil {
		forget()
	}
	return true
}

// unbind forgets a connection that was closed.
func (s *Session) unbind(c *rpc.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(*s.conns.Load()), func(b *binding) bool {
		if b.conn != c {
			return false
		}
		s.minor.cache.account(s.share, -b.cost)
		return true
	})
	s.conns.Store(&list)
}
