package overtime

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// A machine makes calls as an NFS client does: a call has one XID for its life, a timer
// sends copies of it, and a new connection gets a copy of every call that has no answer.
type machine struct {
	*habits
	name string
	// credential is the machine's name in its credentials.
	credential string
	dial       dialer
	now        func() time.Duration // since the run began

	mu      sync.Mutex
	random  *rand.Rand
	at      netip.AddrPort
	line    *line
	lines   []*line // all
	next    uint32  // XID
	waiting []*call // without an answer, in the order of their XIDs
	copies  int
	held    int       // how many things will still happen to lines
	settled sync.Cond // held has fallen
	over    bool      // the client makes no more connections
}

// habits are what clients of one run have in common.
type habits struct {
	// timeout is how long a call waits for its answer before it is sent again; 0: for ever,
	// as clients of NFSv4 do on a connection that lives.
	timeout time.Duration
	// tries is how often a call is sent over one connection before the client gives this up.
	tries int
	// patience is how long a call is waited for at all.
	patience time.Duration
	// lag is how long one message takes.
	lag func() time.Duration
	// latest is how long what was held may come late.
	latest time.Duration
	// ports: the client may choose the port of a connection.
	ports bool
}

// A call waits for its answer.
type call struct {
	xid     uint32
	message []byte
	answer  chan []byte
	line    *line    // that it was sent over last
	sent    int      // how often
	story   []string // how it was sent
}

// do makes one call and returns its reply, or nil where none comes, and how it was sent.
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

// send sends k over the connection that there is. c.mu is held.
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

// late sends k again, over the same connection or over a new one, if it was sent no more
// than sent times.
func (c *machine) late(k *call, sent, try int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case k.sent > sent: // over a new connection
	case try%c.tries == 0:
		c.leave()
	default:
		c.send(k)
	}
}

// giveUp leaves l, if it is the client's connection, and sends everything over another one.
func (c *machine) giveUp(l *line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.line == l {
		c.leave()
	}
}

// leave ends the client's connection in one of the ways in which clients do, connects
// again and sends what has no answer. c.mu is held.
func (c *machine) leave() {
	old := c.line
	if old == nil {
		return // another goroutine is at it
	}
	c.line = nil
	samePort := c.ports && c.random.IntN(2) == 0
	switch way := c.random.IntN(4); {
	case samePort || way == 0:
		// The system lets a port be used again when the connection before is gone.
		old.reset()
	case way == 1:
		old.send(nil) // and is read from on
	case way == 2:
		old.send(nil)
		old.leave()
	default:
		old.leave() // something between the two has forgotten the connection
	}
	if c.ports && !samePort {
		c.at = netip.AddrPortFrom(c.at.Addr(), c.port())
	}
	if c.random.IntN(3) == 0 {
		// What it sent is still on its way, and arrives behind what follows.
		c.hold(old)
	}
	c.connect()
	for _, k := range c.waiting {
		c.send(k)
	}
}

// port is one that only a privileged process has. c.mu is held.
func (c *machine) port() uint16 { return 600 + uint16(c.random.IntN(400)) }

// hold holds l for a while. c.mu is held.
func (c *machine) hold(l *line) {
	release := l.hold()
	c.after(c.some(c.latest), release)
}

// after calls f in a while. c.mu is held.
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

// some is a duration up to most, short ones as often as long ones. c.mu is held.
func (c *machine) some(most time.Duration) time.Duration {
	return time.Duration(float64(most) / float64(int64(1)<<c.random.IntN(12)) * c.random.Float64())
}

// connect makes c.line. c.mu is held.
func (c *machine) connect() {
	if c.over {
		return
	}
	l, err := newLine(c, len(c.lines)+1)
	if err != nil {
		if c.ports { // the port may be one of a connection that was forgotten
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

// answered takes a reply. The first one counts.
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

// forget takes back a call.
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

// suffer has one thing happen to the client's connection, that the client does not learn of.
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
	case 6: // the client gives it up for no reason
	}
	if notices && (c.timeout == 0 || c.random.IntN(2) == 0) {
		// Keepalives fail, or an error arrives.
		c.after(c.some(c.latest/4), func() { c.giveUp(l) })
	}
}

// end closes all connections, behind what is still on its way. It waits without c.mu:
// under synctest the time stands still while a goroutine waits for a mutex.
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
			l.way.reset() // it waits for credits
			<-l.carried
		}
	}
}
