package overtime

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// A machine makes calls as an NFS client does. A call keeps its XID, a timer sends copies of it,
// and a new connection gets a copy of every call that has no answer.
type machine struct {
	*habits
	name string
	// credential is the machine name in the AUTH_SYS credentials of the client.
	credential string
	dial       dialer
	now        func() time.Duration // since the run began

	mu      sync.Mutex
	random  *rand.Rand
	at      netip.AddrPort
	line    *line
	lines   []*line // all connections so far
	next    uint32  // the next XID
	waiting []*call // calls without an answer, in the order of their XIDs
	copies  int
	held    int       // number of functions that the method after has yet to call
	settled sync.Cond // signals that held has decreased
	over    bool      // true if the client makes no more connections
}

// habits are the settings that clients of one run share.
type habits struct {
	// timeout is the duration of the first timer of a call; late is called when it expires. Each
	// further timer of the call is longer by timeout. If timeout is 0, calls have no timers: they
	// are sent again only over a new connection, as by NFSv4 clients.
	timeout time.Duration
	// tries is the number of times that a call is sent over one connection before the client
	// replaces the connection.
	tries int
	// patience is the longest time that a call waits for its answer.
	patience time.Duration
	// lag returns the delay of one message.
	lag func() time.Duration
	// latest is the longest time for which line.hold delays messages.
	latest time.Duration
	// ports is true if the client may choose the local port of a connection.
	ports bool
}

// A call is an RPC call of the client that has no answer yet.
type call struct {
	xid     uint32
	message []byte
	answer  chan []byte
	line    *line    // the connection over which the call was sent last
	sent    int      // number of times that the call was sent
	story   []string // when the call was sent, and over which connections
}

// do makes one call and returns its reply, or nil if none comes within patience. story says when
// the call was sent, and over which connections.
func (c *machine) do(build func(xid uint32) []byte) (reply []byte, story string) {
	c.mu.Lock()
	k := &call{xid: c.next, answer: make(chan []byte, 1)}
	c.next++
	k.message = build(k.xid)
	c.waiting = append(c.waiting, k)
	c.send(k)
	c.mu.Unlock()
	end := time.NewTimer(c.patience)
	defer end.Stop()
	for try := 1; ; try++ {
		var again <-chan time.Time
		var timer *time.Timer
		if c.timeout > 0 {
			timer = time.NewTimer(time.Duration(try) * c.timeout)
			again = timer.C
		}
		c.mu.Lock()
		sent := k.sent
		c.mu.Unlock()
		select {
		case reply = <-k.answer:
		case <-again:
			c.late(k, sent, try)
			continue
		case <-end.C:
			c.forget(k)
		}
		if timer != nil {
			timer.Stop()
		}
		c.mu.Lock()
		story = fmt.Sprintf("XID %#x sent %s", k.xid, strings.Join(k.story, ", "))
		c.mu.Unlock()
		return reply, story
	}
}

// send sends k over the present connection. If there is none, it connects first. The caller holds
// c.mu.
func (c *machine) send(k *call) {
	for c.line == nil {
		c.connect()
	}
	if k.sent++; k.sent > 1 {
		c.copies++
	}
	k.line = c.line
	k.story = append(k.story, fmt.Sprintf("%.3fs over %d", c.now().Seconds(), c.line.number))
	c.line.send(k.message)
}

// late is called when the timer of a call expires. It sends the call again or replaces the
// connection, unless the call was sent again since the timer started. The parameter sent is the
// number of times that the call had been sent at that time, and try is the number of timers of this
// call so far. The caller does not hold c.mu.
func (c *machine) late(k *call, sent, try int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case k.sent > sent: // already sent again, over a new connection
	case try%c.tries == 0:
		c.leave()
	default:
		c.send(k)
	}
}

// giveUp replaces l if it is the client's present connection.
func (c *machine) giveUp(l *line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.line == l {
		c.leave()
	}
}

// leave ends the client's connection in one of the ways of real clients, connects again, and
// sends all calls that have no answer. The caller holds c.mu.
func (c *machine) leave() {
	old := c.line
	if old == nil {
		return // another goroutine is connecting
	}
	c.line = nil
	samePort := c.ports && c.random.IntN(2) == 0
	switch way := c.random.IntN(4); {
	case samePort || way == 0:
		// A new connection can use the same port only after the old connection has ended.
		old.reset()
	case way == 1:
		old.send(nil) // the client still reads from the connection
	case way == 2:
		old.send(nil)
		old.leave()
	default:
		old.leave() // as if a device between the client and the server had dropped the connection
	}
	if c.ports && !samePort {
		c.at = netip.AddrPortFrom(c.at.Addr(), c.port())
	}
	if c.random.IntN(3) == 0 {
		// Messages on the old connection are delayed, and arrive after messages of the new one.
		c.hold(old)
	}
	c.connect()
	for _, k := range c.waiting {
		c.send(k)
	}
}

// port returns a random privileged port. The caller holds c.mu.
func (c *machine) port() uint16 { return 600 + uint16(c.random.IntN(400)) }

// hold delays the messages of l to the server for a random time (see line.hold). The caller holds
// c.mu.
func (c *machine) hold(l *line) {
	release := l.hold()
	c.after(c.some(c.latest), release)
}

// after starts a timer that calls f after the duration d. The caller holds c.mu.
func (c *machine) after(d time.Duration, f func()) {
	c.held++
	time.AfterFunc(d, func() {
		f()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.held--
		c.settled.Broadcast()
	})
}

// some returns a random duration. It chooses one of the limits most, most/2, most/4 to most/2048,
// and then a duration up to this limit, so that short durations are frequent. The caller holds
// c.mu.
func (c *machine) some(most time.Duration) time.Duration {
	return time.Duration(float64(most) / float64(int64(1)<<c.random.IntN(12)) * c.random.Float64())
}

// connect sets c.line to a new connection. If that fails, it leaves c.line nil, and takes another
// local port if the client may choose the port. The caller holds c.mu; connect unlocks it while it
// waits after a failure.
func (c *machine) connect() {
	if c.over {
		return
	}
	l, err := newLine(c, len(c.lines)+1)
	if err != nil {
		if c.ports { // a connection that the client has dropped may still use the port
			c.at = netip.AddrPortFrom(c.at.Addr(), c.port())
		}
		c.mu.Unlock()
		time.Sleep(c.lag() + time.Millisecond)
		c.mu.Lock()
		return
	}
	c.lines = append(c.lines, l)
	c.line = l
}

// answered passes a reply to the call with this XID. It ignores further replies to the same call.
func (c *machine) answered(xid uint32, m []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, k := range c.waiting {
		if k.xid == xid {
			c.waiting = append(c.waiting[:i:i], c.waiting[i+1:]...)
			k.answer <- m
			return
		}
	}
}

// forget removes a call without an answer.
func (c *machine) forget(k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.waiting {
		if c.waiting[i] == k {
			c.waiting = append(c.waiting[:i:i], c.waiting[i+1:]...)
			return
		}
	}
}

// suffer makes one random event happen to the client's connection, or none. The client notices the
// event later or not at all.
func (c *machine) suffer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.line
	if l == nil {
		return
	}
	notices := true
	switch c.random.IntN(7) {
	case 0:
		l.lose()
		l.deafen()
	case 1:
		l.lose()
	case 2:
		l.deafen()
	case 3:
		c.hold(l)
		notices = c.random.IntN(2) == 0
	case 4:
		c.hold(l)
		l.deafen()
	case 5:
		l.reset()
	case 6: // no event: the client leaves the connection without a reason
	}
	if notices && (c.timeout == 0 || c.random.IntN(2) == 0) {
		// The client notices the event later, as if a keepalive had failed or an error had
		// arrived.
		c.after(c.some(c.latest/4), func() { c.giveUp(l) })
	}
}

// end delivers the queued messages and then closes all connections. It does not hold c.mu while
// it waits, because under synctest time stands still while a goroutine waits for a mutex.
func (c *machine) end() {
	c.mu.Lock()
	for c.settled.L = &c.mu; c.held > 0; {
		c.settled.Wait()
	}
	c.over, c.line = true, nil
	lines := c.lines
	c.mu.Unlock()
	for _, l := range lines {
		l.change(func() { l.left, l.ending, l.queue = true, true, append(l.queue, nil) })
	}
	for _, l := range lines {
		select {
		case <-l.carried:
			if l.lost {
				l.way.reset()
			}
		case <-time.After(c.latest):
			l.way.reset() // carry is blocked, because it has no credits
			<-l.carried
		}
	}
}
