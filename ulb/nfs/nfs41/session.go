package nfs41

import (
	"crypto/rand"
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/internal/fair"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// maxConns is the maximum number of connections in Session.conns. Further connections can still carry
// requests of the session, unless its client asked for protection of BIND_CONN_TO_SESSION: see admits.
const maxConns = 128

// A Session is one session of a client (RFC 8881 §2.10).
type Session struct {
	ID wire.SessionID4
	// owner is the client that owns the session, and client its companion.
	owner      *state.Client
	client     *client
	minor      *Minor
	fore, back channel
	// minorVersion is the minor version of the CREATE_SESSION.
	minorVersion uint32
	// place is the session's place in cache.aside, and share counts the memory in cache.others of all
	// sessions that clients at the same address created.
	place fair.Node[*Session]
	share *share
	// displaced is true if the session had to make room for another one. The client's mutex guards it.
	displaced bool
	// slots are made at their first use.
	slots []atomic.Pointer[slot]
	ended atomic.Bool
	// turn counts the replies that told the client to use fewer slots. Slots store its value to
	// tell requests before such a reply from later ones: see retire.
	turn atomic.Uint64
	// held is the memory for replies that the slots other than slot 0 use, in bytes.
	held atomic.Int64
	// wanted is true if the client has bound a connection to the backchannel and expects calls over it.
	wanted atomic.Bool
	// answered is true if the client has ever answered a callback. down is true after a callback
	// that it did not answer. Each reply to SEQUENCE then tells the client so, until it binds a
	// connection, sends BACKCHANNEL_CTL, or answers a call. fault is true if server and client
	// disagree about the sequence numbers of the backchannel. That cannot be repaired: the client
	// has to end the session (RFC 8881 §18.46.3).
	answered, down, fault atomic.Bool
	// conns are the connections bound to the session. To change the list, a goroutine replaces it.
	conns atomic.Pointer[[]*binding]

	security atomic.Pointer[security]

	// mu guards the fields below, and is held while conns or security is replaced.
	mu      sync.Mutex
	program uint32
	calls   calls
}

// A binding is a connection of a session with the channels that it carries.
type binding struct {
	conn       *rpc.Conn
	fore, back bool
	cost       int64  // memory counted in cache.others, in bytes
	forget     func() // cancels the connection's OnClose; guarded by the session's mutex; nil until it is set
}

// init makes the tables for the slots of both channels.
func (s *Session) init() {
	s.slots = make([]atomic.Pointer[slot], s.fore.Maxrequests)
	s.conns.Store(&[]*binding{})
	s.calls.slots = make([]backSlot, min(s.back.Maxrequests, maxBackSlots))
	s.calls.target = maxBackSlots
}

// giveBack gives back the memory that cache.session set aside, if it was not taken back.
func (s *Session) giveBack() {
	s.minor.cache.endSession(s)
}

// end ends a session that is in the table. It is called once, by the goroutine that has removed the
// session from its client. Running requests continue.
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
			sl.close()
		}
	}
	s.giveBack()
}

// binding returns the binding of a connection, or nil.
func (s *Session) binding(c *rpc.Conn) *binding {
	for _, b := range *s.conns.Load() {
		if b.conn == c {
			return b
		}
	}
	return nil
}

// bind binds a connection to channels of the session until the connection is closed. If the
// connection is bound already, bind adds the channels. bind returns false if the session has ended
// or has too many connections, or no memory is left.
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
	if len(list) > 0 { // cache.session set aside the memory for the first connection
		if !s.minor.cache.reserve(s.share, bindingCost) {
			s.mu.Unlock()
			return false
		}
		b.cost = bindingCost
	}
	list = append(list, b)
	s.conns.Store(&list)
	s.mu.Unlock()

	// Call OnClose without the mutex: if the connection is already closed, OnClose calls unbind at once.
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

// The smallest limits, in bytes, that a client may set for the calls and the replies on a channel:
// a call with only SEQUENCE under AUTH_SYS, and its reply.
const (
	leastRequest  = 128
	leastResponse = rpc.ReplyHeader + 12 + 8 + wire.Sequence4ResOKMaxSize
	// leastBackRequest is the size of a CB_RECALL under AUTH_SYS, leastBackResponse that of its reply.
	leastBackRequest  = 32 + 96 + 12 + 48 + 4 + wire.CBRecall4ArgsMaxSize
	leastBackResponse = rpc.ReplyHeader + 12 + 8 + 36 + 8
)

// The largest calls and replies on a fore channel, in bytes.
const (
	mostRequest  = nfs.MaxCompound + rpc.MaxCallHeader
	mostResponse = nfs.MaxCompound + rpc.ReplyHeader + rpc.MaxAuthBytes
)

// A channel is one direction of a session with the limits that both sides obey (RFC 8881 §18.36.3).
type channel struct{ wire.ChannelAttrs4 }

// negotiate sets the limits of a fore channel from the client's request. slots is the maximum
// number of slots. It returns false if the client's limits are too small for any request.
func (c *channel) negotiate(a *wire.ChannelAttrs4, slots int) bool {
	if a.Maxrequestsize < leastRequest || a.Maxresponsesize < leastResponse || a.Maxoperations == 0 || a.Maxrequests == 0 {
		return false
	}
	c.ChannelAttrs4 = wire.ChannelAttrs4{
		Maxrequestsize:        min(a.Maxrequestsize, mostRequest),
		Maxresponsesize:       min(a.Maxresponsesize, mostResponse),
		MaxresponsesizeCached: min(a.MaxresponsesizeCached, a.Maxresponsesize, maxCached),
		Maxoperations:         min(a.Maxoperations, nfs.MaxOperations),
		Maxrequests:           min(a.Maxrequests, uint32(slots)),
		RDMAIrd:               a.RDMAIrd,
	}
	return true
}

// accept adopts the limits that the client sets for a backchannel. It returns false if they are too
// small for every call that the server could make.
func (c *channel) accept(a *wire.ChannelAttrs4) bool {
	c.ChannelAttrs4 = *a
	c.Headerpadsize = 0
	return a.Maxrequestsize >= leastBackRequest && a.Maxresponsesize >= leastBackResponse && a.Maxoperations >= 2 && a.Maxrequests > 0
}

// maxCached returns the size of the largest reply that a slot keeps, in bytes.
func (c *channel) maxCached() int { return int(c.MaxresponsesizeCached) }

// The table of sessions grows by one chunk at a time and never moves a session, so that readers need no
// lock. chunkSize is the number of sessions in a chunk, chunks the maximum number of chunks.
const (
	chunkSize = 256
	chunks    = 256
)

// table finds sessions by session ID. The ID holds the epoch of this run of the server, the
// session's index in the table, and eight random bytes. The random bytes protect the session: a
// peer that knows the ID may send requests in the session.
type table struct {
	epoch uint32
	rows  [chunks]atomic.Pointer[chunk]

	mu    sync.Mutex
	free  []uint32 // indexes of removed sessions
	used  uint32   // number of indexes used so far
	count uint64
}

type chunk [chunkSize]atomic.Pointer[Session]

// find returns the session with an ID, or nil.
func (t *table) find(id *wire.SessionID4) *Session {
	i := binary.BigEndian.Uint32(id[4:])
	if i >= chunks*chunkSize {
		return nil
	}
	c := t.rows[i/chunkSize].Load()
	if c == nil {
		return nil
	}
	if s := c[i%chunkSize].Load(); s != nil && s.ID == *id {
		return s
	}
	return nil
}

// all yields every session.
func (t *table) all(yield func(s *Session) bool) {
	for i := range t.rows {
		c := t.rows[i].Load()
		if c == nil {
			return // rows are filled in order
		}
		for j := range c {
			if s := c[j].Load(); s != nil && !yield(s) {
				return
			}
		}
	}
}

// add gives s an ID and a free index in the table. It returns false if the table is full.
func (t *table) add(s *Session) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.used
	switch n := len(t.free); {
	case n > 0:
		i = t.free[n-1]
		t.free = t.free[:n-1]
	case i == chunks*chunkSize:
		return false
	default:
		t.used++
	}
	row := &t.rows[i/chunkSize]
	if row.Load() == nil {
		row.Store(new(chunk))
	}
	t.count++
	binary.BigEndian.PutUint32(s.ID[:], t.epoch+uint32(t.count>>32))
	binary.BigEndian.PutUint32(s.ID[4:], i)
	rand.Read(s.ID[8:])
	row.Load()[i%chunkSize].Store(s)
	return true
}

// remove removes s, which is in the table.
func (t *table) remove(s *Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := binary.BigEndian.Uint32(s.ID[4:])
	t.rows[i/chunkSize].Load()[i%chunkSize].Store(nil)
	t.free = append(t.free, i)
}
