package overtime

import (
	"encoding/binary"
	"sync"
	"time"
)

// A line is one connection of a client and its network: messages may be late or lost, and either
// end may not learn of it.
type line struct {
	number int
	way    way
	owner  *machine
	lag    func() time.Duration

	mu      sync.Mutex
	changed sync.Cond
	queue   [][]byte // messages on their way to the server; nil is a FIN
	held    int      // number of reasons for which messages to the server wait
	lost    bool     // no message reaches the server any more
	deaf    bool     // no message reaches the client any more
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

// send queues a message, or a FIN.
func (l *line) send(m []byte) {
	l.change(func() { l.queue = append(l.queue, m) })
}

func (l *line) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	l.changed.Broadcast()
}

// carry delivers messages to the server, in order.
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

// hold stops messages to the server until release is called, once.
func (l *line) hold() (release func()) {
	l.change(func() { l.held++ })
	return func() { l.change(func() { l.held-- }) }
}

// lose drops the messages on their way to the server, and all later ones. The server does not
// learn of it.
func (l *line) lose() { l.change(func() { l.lost = true }) }

// deafen drops the server's messages.
func (l *line) deafen() { l.change(func() { l.deaf = true }) }

// leave makes the client stop reading.
func (l *line) leave() { l.change(func() { l.left = true }) }

// reset ends the connection for both ends. The server keeps the messages that it has received.
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
