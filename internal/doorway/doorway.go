// Package doorway accepts TCP connections for a listener: it empties the kernel's queue as fast as it
// can, drops what the peer has closed already, and lets the others enter in turns.
//
// To enter costs more than to be accepted: memory, a seat, a goroutine. If connections entered in the
// order of the kernel's queue, a peer that connects and closes a few thousand times a second would keep
// everybody else waiting in that queue until it overflows. Here known addresses have four turns of five,
// sites take turns (clientaddr.Site), and the connections of a site enter in their order. While Most
// connections wait, the others stay in the kernel's queue: after a restart hundreds of clients come at
// once, so none is turned away here.
package doorway

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/internal/queue"
)

// Most is the number of connections of one Door that may wait to enter. Each has a descriptor.
const Most = 16

// A Door lets the connections of one listener enter. Set its fields before Serve, which runs once.
type Door struct {
	// Enter takes over an accepted connection. It must not wait for the peer. One goroutine calls it.
	Enter func(net.Conn)
	// Knows reports whether connections from an address come before those of strangers.
	Knows func(netip.Addr) bool
	// Failed is called for each error of Accept, except net.ErrClosed. It returns how long Serve waits, at
	// least, before it accepts again. After further errors Serve waits longer, up to a second.
	Failed func(error) time.Duration
	// Closed ends Serve at the next error of Accept, and such a wait, when it is closed.
	Closed <-chan struct{}

	mu             sync.Mutex
	known, unknown queue.List[site, *site]
	sites          map[key]*site
	entered        int           // known connections since the last of another address
	wake           chan struct{} // of capacity 1
	places         chan struct{} // has an element for each connection that waits, and one for Accept
}

// A key names a site among the known addresses or among the others.
type key struct {
	site  netip.Addr
	known bool
}

// A site has the waiting connections of a site, in their order. It exists while it has some.
type site struct {
	queue.Links[site] // links in Door.known or Door.unknown
	key               key
	waiting           []net.Conn
}

// Serve accepts connections from l until l is closed, and returns the error of l. When it returns, each
// connection has entered or is closed.
func (d *Door) Serve(l net.Listener) error {
	d.sites, d.wake, d.places = make(map[key]*site), make(chan struct{}, 1), make(chan struct{}, Most)
	var entering sync.WaitGroup
	entering.Go(d.enter)
	defer entering.Wait()
	defer d.close()
	var pause time.Duration
	for {
		d.places <- struct{}{}
		c, err := l.Accept()
		if err == nil {
			pause = 0
		}
		if err == nil && !gone(c) {
			d.arrive(c)
			continue
		}
		<-d.places
		switch {
		case err == nil:
			c.Close()
		case errors.Is(err, net.ErrClosed):
			return err
		default:
			select {
			case <-d.Closed:
				return err
			default:
			}
			pause = min(max(2*pause, d.Failed(err)), time.Second)
			select {
			case <-time.After(pause):
			case <-d.Closed:
			}
		}
	}
}

// arrive lets c wait for its turn.
func (d *Door) arrive(c net.Conn) {
	client := clientaddr.Of(addr(c))
	k := key{clientaddr.Site(client), d.Knows(client)}
	d.mu.Lock()
	s := d.sites[k]
	if s == nil {
		s = &site{key: k}
		d.sites[k] = s
		d.line(k).Add(s)
	}
	s.waiting = append(s.waiting, c)
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// line returns the line in which a site waits for its turn: that of the known addresses, or the other.
func (d *Door) line(k key) *queue.List[site, *site] {
	if k.known {
		return &d.known
	}
	return &d.unknown
}

// takeLocked takes the oldest connection of s out. s becomes the last in its line.
func (d *Door) takeLocked(s *site) net.Conn {
	c := s.waiting[0]
	s.waiting = s.waiting[1:]
	d.line(s.key).Remove(s)
	if len(s.waiting) > 0 {
		d.line(s.key).Add(s)
	} else {
		delete(d.sites, s.key)
	}
	return c
}

// knownTurns is the number of known connections that enter one after the other while others wait.
const knownTurns = 4

// next returns the connection whose turn it is, or nil.
func (d *Door) next() net.Conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	line := &d.known
	if line.First == nil || d.entered >= knownTurns && d.unknown.First != nil {
		line = &d.unknown
	}
	if line.First == nil {
		return nil
	}
	if d.entered++; line == &d.unknown {
		d.entered = 0
	}
	return d.takeLocked(line.First)
}

// enter lets connections enter until Serve ends.
func (d *Door) enter() {
	for range d.wake {
		for c := d.next(); c != nil; c = d.next() {
			<-d.places
			if gone(c) {
				c.Close()
			} else {
				d.Enter(c)
			}
		}
	}
}

// close ends the goroutine of enter. Connections that wait enter before: the user of the Door knows
// whether it serves them still.
func (d *Door) close() { close(d.wake) }

func addr(c net.Conn) netip.Addr {
	if t, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return t.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// gone reports whether the peer has closed or reset c before it sent anything.
func gone(c net.Conn) (is bool) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		is = n == 0 && err == nil || err != nil && err != unix.EAGAIN && err != unix.EINTR
	})
	return is
}
