package overtime

import (
	"encoding/binary"
	"sync"
	"time"
)

// A line is one connection of a client, and the network that carries it. The network may delay or
// lose messages, and one end or both may not notice that.
type line struct {
	number int
	way    way
	owner  *machine
	lag    func() time.Duration

	mu      sync.Mutex
	changed sync.Cond
	queue   [][]byte // messages on their way to the server; nil is a FIN
	held    int      // number of calls of hold that are not released yet; messages to the server wait while it is not 0
	lost    bool     // true if no further message reaches the server
	deaf    bool     // true if no further message reaches the client
	left    bool     // true if the client no longer reads from the connection
	ending  bool     // true if carry returns when the queue is empty
	carried chan struct{}
}

// newLine makes a connection. The caller holds c.mu.
func newLine(c *machine, number int) (*line, error) {
	l := &line{number: number, owner: c, lag: c.lag, carried: make(chan struct{})}
	l.changed.L = &l.mu
	var err error
	if l.way, err = c.dial(c.at, l); err != nil {
		return nil, err
	}
	go l.carry()
	return l, nil
}

// send queues a message to the server. If m is nil, it queues a FIN.
func (l *line) send(m []byte) {
	l.change(func() { l.queue = append(l.queue, m) })
}

func (l *line) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	l.changed.Broadcast()
}

// carry delivers the queued messages to the server, in order, or drops them after a call of lose.
// It waits while hold delays messages. It returns when ending is set and the queue is empty.
func (l *line) carry() {
	defer close(l.carried)
	for {
		l.mu.Lock()
		for (len(l.queue) == 0 || l.held > 0) && !(l.ending && l.held == 0) {
			l.changed.Wait()
		}
		if len(l.queue) == 0 {
			l.mu.Unlock()
			return
		}
		m := l.queue[0]
		l.queue = l.queue[1:]
		lost := l.lost
		l.mu.Unlock()
		if lost {
			continue
		}
		time.Sleep(l.lag())
		if m == nil {
			l.way.half()
		} else {
			l.way.send(m)
		}
	}
}

// hold delays messages to the server until release is called. The caller calls release once.
func (l *line) hold() (release func()) {
	l.change(func() { l.held++ })
	return func() { l.change(func() { l.held-- }) }
}

// lose drops the queued messages to the server and all later ones. The server does not notice it.
func (l *line) lose() { l.change(func() { l.lost = true }) }

// deafen drops all further messages from the server to the client.
func (l *line) deafen() { l.change(func() { l.deaf = true }) }

// leave makes the client stop reading from the connection.
func (l *line) leave() { l.change(func() { l.left = true }) }

// reset resets the connection at both ends. Messages in the queue are dropped. The server keeps the
// messages that it has received.
func (l *line) reset() {
	l.change(func() { l.queue, l.left = nil, true })
	l.way.reset()
}

// arrived implements listener.
func (l *line) arrived(m []byte) {
	time.Sleep(l.lag())
	l.mu.Lock()
	through := !l.deaf && !l.left && len(m) >= 4
	l.mu.Unlock()
	if through {
		l.owner.answered(binary.BigEndian.Uint32(m), m)
	}
}

// ended implements listener.
func (l *line) ended() {
	l.mu.Lock()
	through := !l.deaf && !l.left
	l.mu.Unlock()
	if through {
		go l.owner.giveUp(l)
	}
}
