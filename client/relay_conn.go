package client

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// maxRelayRecord is the longest call that is taken, in bytes.
const maxRelayRecord = 4<<20 + 64<<10

// Record marking (RFC 5531 §11).
const (
	recordMark   = 4
	lastFragment = 1 << 31
)

// A relayConn is a client's connection, and the one to the server that belongs to
// it.
type relayConn struct {
	relay *Relay
	nc    net.Conn
	in    *bufio.Reader

	server *Conn // nil until a call needs it
	mount  *Conn // where MOUNT is; may be server

	limited bool            // the client is expected to send
	slots   chan struct{}   // one for each call under way
	replies chan *relayCall // as many places
	pending sync.WaitGroup  // calls without a reply so far
	calls   atomic.Int64
	failure atomic.Pointer[error]
}

func newRelayConn(r *Relay, nc net.Conn) *relayConn {
	return &relayConn{
		relay: r, nc: nc, in: bufio.NewReaderSize(nc, 64<<10),
		slots:   make(chan struct{}, r.cfg.Calls),
		replies: make(chan *relayCall, r.cfg.Calls),
	}
}

// fail ends the connection for an error that its client cannot be told.
func (c *relayConn) fail(err error) {
	c.failure.CompareAndSwap(nil, &err)
	c.nc.SetDeadline(time.Unix(1, 0))
}

// run is the connection's life.
func (c *relayConn) run() {
	stop := context.AfterFunc(c.relay.life, func() { c.fail(ErrRelayClosed) })
	defer stop()
	written := make(chan struct{})
	go func() {
		defer close(written)
		c.write()
	}()
	err := c.read()
	if err != nil {
		c.fail(err)
	}
	// A client may close its half and still wait for replies.
	c.await()
	for _, s := range []*Conn{c.mount, c.server} {
		if s != nil {
			s.Close()
		}
	}
	c.pending.Wait()
	close(c.replies)
	<-written
	c.nc.Close()
	if f := c.relay.cfg.Event; f != nil {
		e := RelayEvent{Client: c.nc.RemoteAddr().String(), Calls: c.calls.Load()}
		if why := c.failure.Load(); why != nil {
			e.Err = *why
		}
		f(e)
	}
}

// await waits for the replies that are due, unless the connection has failed.
func (c *relayConn) await() {
	if c.failure.Load() != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		c.pending.Wait()
		close(done)
	}()
	t := time.NewTimer(c.relay.cfg.Timeout)
	defer t.Stop()
	select {
	case <-done:
		return
	case <-t.C:
		c.fail(errors.New("client: server did not answer a client that has left"))
	case <-c.relay.life.Done():
	}
}

// read takes calls until the client has no more.
func (c *relayConn) read() error {
	for {
		head, err := c.in.Peek(recordMark)
		if err != nil {
			// Some clients leave by a reset.
			if len(head) == 0 && (err == io.EOF || errors.Is(err, syscall.ECONNRESET)) {
				return nil
			}
			return unexpected(err)
		}
		select {
		case c.slots <- struct{}{}:
		case <-c.relay.life.Done():
			return ErrRelayClosed
		}
		k, err := c.take(binary.BigEndian.Uint32(head))
		if err != nil {
			<-c.slots
			return err
		}
		c.calls.Add(1)
		c.pending.Add(1)
		if err := k.forward(); err != nil {
			c.pending.Done()
			k.free()
			return err
		}
	}
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

var errRecordLength = errors.New("client: record exceeds what is relayed")

// take reads one call. What the call will need is reserved once, judged from its
// first bytes, before the rest is read.
func (c *relayConn) take(mark uint32) (*relayCall, error) {
	n, last := int(mark&^lastFragment), mark&lastFragment != 0
	if n > maxRelayRecord {
		return nil, errRecordLength
	}
	if c.in.Buffered() < recordMark+n || !last {
		// Who stops in the middle of a call holds no memory for long.
		if err := c.limit(time.Now().Add(c.relay.cfg.Timeout)); err != nil {
			return nil, err
		}
	}
	k, err := c.takeWithin(n, last)
	if err != nil {
		return nil, err
	}
	if err := c.limit(time.Time{}); err != nil {
		k.drop()
		return nil, err
	}
	return k, nil
}

// limit sets how long the client may take, unless the connection has failed.
func (c *relayConn) limit(deadline time.Time) error {
	if c.limited == !deadline.IsZero() {
		return nil
	}
	c.limited = !deadline.IsZero()
	c.nc.SetReadDeadline(deadline)
	// In this order, as fail has the other.
	if why := c.failure.Load(); why != nil {
		return *why
	}
	return nil
}

// takeWithin is take, of a first fragment of n bytes.
func (c *relayConn) takeWithin(n int, last bool) (*relayCall, error) {
	first, err := c.in.Peek(recordMark + min(n, rpc.AdmitPrefix))
	if err != nil {
		return nil, unexpected(err)
	}
	k := relayCalls.Get().(*relayCall)
	k.conn = c
	k.reserved = int64(n)
	if !last {
		k.reserved = maxRelayRecord
	}
	k.reserved += int64(k.foresee(first[recordMark:]))
	if err := c.relay.memory.Acquire(c.relay.life, k.reserved); err != nil {
		k.reserved = 0
		k.drop()
		return nil, ErrRelayClosed
	}
	c.in.Discard(recordMark)
	k.in = k.in[:0]
	for {
		if len(k.in)+n > maxRelayRecord {
			err = errRecordLength
		} else {
			k.in, err = appendFrom(k.in, c.in, n)
		}
		if err != nil {
			k.drop()
			return nil, unexpected(err)
		}
		if last {
			return k, nil
		}
		var head [recordMark]byte
		if _, err = io.ReadFull(c.in, head[:]); err != nil {
			k.drop()
			return nil, unexpected(err)
		}
		mark := binary.BigEndian.Uint32(head[:])
		n, last = int(mark&^lastFragment), mark&lastFragment != 0
	}
}

// firstStep is how much is allocated for a record before any of it is here.
const firstStep = 64 << 10

// appendFrom reads n bytes behind b, which grows as they come.
func appendFrom(b []byte, r io.Reader, n int) ([]byte, error) {
	for n > 0 {
		step := min(n, max(cap(b)-len(b), firstStep, len(b)))
		if cap(b)-len(b) < step {
			b = append(make([]byte, 0, len(b)+step), b...)
		}
		if _, err := io.ReadFull(r, b[len(b):len(b)+step]); err != nil {
			return b, err
		}
		b = b[:len(b)+step]
		n -= step
	}
	return b, nil
}

// maxGather is how many replies go in one write.
const maxGather = 64

// write sends replies as they come.
func (c *relayConn) write() {
	var gathered []*relayCall
	var bufs net.Buffers
	for k := range c.replies {
		gathered = append(gathered[:0], k)
	more:
		for len(gathered) < maxGather {
			select {
			case k, ok := <-c.replies:
				if !ok {
					break more
				}
				gathered = append(gathered, k)
			default:
				break more
			}
		}
		bufs = bufs[:0]
		for _, k := range gathered {
			bufs = k.appendTo(bufs)
		}
		c.nc.SetWriteDeadline(time.Now().Add(c.relay.cfg.Timeout))
		if c.failure.Load() == nil && len(bufs) > 0 {
			out := bufs
			if _, err := out.WriteTo(c.nc); err != nil {
				c.fail(fmt.Errorf("client: replies to a client: %w", err))
			}
		}
		for _, k := range gathered {
			k.free()
		}
	}
}

// toServer is the connection to the server, made when it is needed first.
func (c *relayConn) toServer() (*Conn, error) {
	if c.server == nil {
		s, err := c.relay.dial(c.relay.life)
		if err != nil {
			return nil, err
		}
		c.server = s
	}
	return c.server, nil
}

// toMount is the connection to the server's MOUNT service.
func (c *relayConn) toMount() (*Conn, error) {
	if c.mount != nil && !c.mount.Lost() {
		return c.mount, nil
	}
	if c.mount != nil {
		if c.mount != c.server {
			c.mount.Close()
		}
		c.mount = nil
	}
	s, err := c.toServer()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.relay.life, c.relay.cfg.Timeout)
	defer cancel()
	m, _, err := s.DialMount(ctx, c.relay.cfg.MountPort)
	if err != nil {
		return nil, err
	}
	c.mount = m
	return m, nil
}
