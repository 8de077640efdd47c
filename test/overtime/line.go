package overtime

import (
	"encoding/binary"
	"sync"
	"time"
)

// A line is one connection of a client and the network that it goes through: what is
// sent may be late or lost, and either end may not learn of it.
type line struct {
	number int
	way    way
	owner  *machine
	lag    func() time.Duration

	mu      sync.Mutex
	changed sync.Cond
	queue   [][]byte // what is on its way to the server; nil is a FIN
	held    int      // so many reasons to let nothing through to the server for now
	lost    bool     // nothing goes through to the server any more
	deaf    bool     // nothing comes through to the client any more
	left    bool     // the client does not read from it any more
	ending  bool     // carry returns when the queue is empty
	carried chan struct{}
}

// newLine connects. c.mu is held.
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

// send puts a message, or a FIN, on its way.
func (l *line) send(m []byte) {
	l.change(func() { l.queue = append(l.queue, m) })
}

func (l *line) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	l.changed.Broadcast()
}

// carry brings messages to the server, in order.
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

// hold lets nothing through to the server until release is called once.
func (l *line) hold() (release func()) {
	l.change(func() { l.held++ })
	return func() { l.change(func() { l.held-- }) }
}

// lose loses what is on its way to the server, and what follows. The server does not
// learn of it.
func (l *line) lose() { l.change(func() { l.lost = true }) }

// deafen loses what comes from the server.
func (l *line) deafen() { l.change(func() { l.deaf = true }) }

// leave ends the client's interest.
func (l *line) leave() { l.change(func() { l.left = true }) }

// reset ends the connection for both ends. What the server has received stays there.
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
