package hostileservers_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

const (
	receives    = 64
	receiveSize = 4096
)

// A responder deals with a request for a connection. It returns when ended is closed, if not earlier.
type responder func(r rdmacm.Request, ended <-chan struct{})

// listenRDMA listens by a provider, and gives each request for a connection to serve, on a goroutine of its own, until the
// test ends.
func listenRDMA(t *testing.T, p rdmacm.Provider, serve responder) (address string) {
	at, err := netip.ParseAddr(*host)
	if err != nil {
		t.Fatal(err)
	}
	l, err := p.Listen(netip.AddrPortFrom(at, 0))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			request, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { serve(request, ended) })
		}
	})
	t.Cleanup(func() {
		close(ended)
		l.Close()
		serving.Wait()
	})
	return l.Addr().String()
}

// A connection is what a responder has accepted.
type connection struct {
	rdmacm.Conn
	messages chan []byte
}

// Received implements rdmacm.Handler. It drops messages beyond those that were granted.
func (c *connection) Received(r *rdmacm.Recv) {
	message := bytes.Clone(r.Bytes)
	r.Release()
	select {
	case c.messages <- message:
	default:
	}
}

// Closed implements rdmacm.Handler.
func (c *connection) Closed(error) { close(c.messages) }

// next waits for the next message of the peer, and permits one more. It returns nil when the connection has ended.
func (c *connection) next() []byte {
	message, ok := <-c.messages
	if !ok {
		return nil
	}
	c.Provide(1, receiveSize)
	return message
}

// post posts work, waits for its end, and reports whether it succeeded.
func (c *connection) post(work ...rdmacm.Work) bool {
	done := make(chan error, 1)
	c.Post(&rdmacm.Chain{Work: work, Done: func(_ *rdmacm.Chain, err error, _ int) { done <- err }})
	return <-done == nil
}

// accepting returns a responder that accepts each request, with these parameters if they are not 0, and calls serve. It ends
// the connection when serve returns.
func accepting(p rdmacm.ConnParam, serve func(c *connection)) responder {
	return func(r rdmacm.Request, ended <-chan struct{}) {
		c := &connection{messages: make(chan []byte, receives)}
		p := p
		p.Handler, p.Receives, p.ReceiveSize, p.MaxReceives = c, cmp.Or(p.Receives, receives), receiveSize, 4*receives
		p.OutboundReads = 8
		var err error
		if c.Conn, err = r.Accept(p); err != nil {
			return
		}
		go func() {
			select {
			case <-ended:
				c.Abort(nil)
			case <-c.Done():
			}
		}()
		serve(c)
		c.Disconnect()
		<-c.Done()
	}
}

// inertRDMA has servers that accept connections, if at all, and know nothing of RPC-over-RDMA.
var inertRDMA = map[string]responder{
	"rejects":            func(r rdmacm.Request, _ <-chan struct{}) { r.Reject(nil) },
	"rejects with data":  func(r rdmacm.Request, _ <-chan struct{}) { r.Reject(ones(rdmacm.MaxRejectData)) },
	"answers no request": func(r rdmacm.Request, ended <-chan struct{}) { <-ended; r.Reject(nil) },
	"disconnects":        accepting(rdmacm.ConnParam{}, func(*connection) {}),
	"aborts":             accepting(rdmacm.ConnParam{}, func(c *connection) { c.Abort(nil) }),
	"disconnects later":  accepting(rdmacm.ConnParam{}, func(c *connection) { c.next() }),
	"silent":             accepting(rdmacm.ConnParam{}, silent),
	"long private data":  accepting(rdmacm.ConnParam{PrivateData: ones(rdmacm.MaxAcceptData)}, silent),
	"smallest buffers":   accepting(rdmacm.ConnParam{PrivateData: []byte{0xf6, 0xab, 0x0e, 0x18, 1, 1, 0, 0}}, echo),
	"largest buffers":    accepting(rdmacm.ConnParam{PrivateData: []byte{0xf6, 0xab, 0x0e, 0x18, 1, 1, 255, 255}}, echo),
	"takes one message":  accepting(rdmacm.ConnParam{Receives: 1}, func(c *connection) { <-c.Done() }),
	"echoes":             accepting(rdmacm.ConnParam{}, echo),
	"floods":             accepting(rdmacm.ConnParam{}, flood(receiveSize)),
	"floods of nothing":  accepting(rdmacm.ConnParam{}, flood(0)),
	"long message":       accepting(rdmacm.ConnParam{}, afterMessage(rdmacm.Work{Op: rdmacm.OpSend, Local: [][]byte{make([]byte, 1<<20)}})),
	"writes where it must not": accepting(rdmacm.ConnParam{}, afterMessage(rdmacm.Work{
		Op: rdmacm.OpWrite, Local: [][]byte{ones(4096)}, Remote: rdmacm.Remote{STag: 0x1234567, Offset: 1 << 40},
	})),
	"reads where it must not": accepting(rdmacm.ConnParam{}, afterMessage(rdmacm.Work{
		Op: rdmacm.OpRead, Local: [][]byte{make([]byte, 4096)}, Remote: rdmacm.Remote{STag: 0x1234567, Offset: 1 << 40},
	})),
}

func ones(n int) []byte { return bytes.Repeat([]byte{0xff}, n) }

func silent(c *connection) {
	for c.next() != nil {
	}
}

func echo(c *connection) {
	for {
		m := c.next()
		if m == nil || !c.post(rdmacm.Work{Op: rdmacm.OpSend, Local: [][]byte{m}}) {
			return
		}
	}
}

// flood sends messages of this size until the connection ends, whatever the peer has granted.
func flood(size int) func(c *connection) {
	return func(c *connection) {
		for c.post(rdmacm.Work{Op: rdmacm.OpSend, Local: [][]byte{make([]byte, size)}}) {
		}
	}
}

// afterMessage does work after each of the peer's messages.
func afterMessage(work rdmacm.Work) func(c *connection) {
	return func(c *connection) {
		for c.next() != nil && c.post(work) {
		}
	}
}

// spoiled returns a responder that gives a real server's replies, mangled. It passes the calls to the real server at this
// address of TCP. It drops calls with Read chunks, and makes no RDMA Write: its replies are inline.
func spoiled(real string, spoilers func() *spoiler) responder {
	return accepting(rdmacm.ConnParam{}, func(c *connection) {
		to, err := net.Dial("tcp", real)
		if err != nil {
			return
		}
		defer to.Close()
		go c.answer(to, spoilers())
		for {
			call := c.next()
			var header wire.Header
			switch {
			case call == nil:
				return
			case len(call) < wire.MinHeader || header.Parse(call) != nil || header.Reads.Len() > 0:
				continue
			}
			if _, err := to.Write(record(call[header.Size:])); err != nil {
				return
			}
		}
	})
}

// answer sends the mangled replies.
func (c *connection) answer(real net.Conn, s *spoiler) {
	for {
		reply, err := readRecord(real)
		if err != nil {
			return
		}
		m := binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32(reply))
		for _, word := range []uint32{1, receives, 0, 0, 0, 0} { // version, credits, RDMA_MSG, three empty lists
			m = binary.BigEndian.AppendUint32(m, word)
		}
		for _, m := range s.of(append(m, reply...)) {
			if len(m) > receiveSize {
				m = m[:receiveSize]
			}
			c.Post(&rdmacm.Chain{
				Work: []rdmacm.Work{{Op: rdmacm.OpSend, Local: [][]byte{m}}},
				Done: func(*rdmacm.Chain, error, int) {},
			})
		}
	}
}
