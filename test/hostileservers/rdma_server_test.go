package hostileservers_test

import (
	"bytes"
	"encoding/binary"
	"net"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp"
	"github.com/nfsrdmad/nfsrdmad/test/testserver"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

const (
	receives    = 64
	receiveSize = 4096
)

// A spoilRDMA is one connection of a responder, which gives a real server's replies, mangled. It drops calls with Read
// chunks, and makes no RDMA Write: its replies are inline.
type spoilRDMA struct {
	*spoiler
	ready chan struct{}
	conn  rdmacm.Conn
	real  net.Conn
	calls chan []byte
}

// serveRDMA listens with the software RNIC. It passes calls to the real server at this address of TCP.
func serveRDMA(t *testing.T, real string, spoilers func() *spoiler) (address string) {
	device, err := iwarp.New(iwarp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := device.Listen(testserver.Loopback)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			request, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", real)
			if err != nil {
				request.Reject(nil)
				continue
			}
			h := &spoilRDMA{spoiler: spoilers(), ready: make(chan struct{}), real: to, calls: make(chan []byte, receives)}
			c, err := request.Accept(rdmacm.ConnParam{Handler: h, Receives: receives, ReceiveSize: receiveSize, MaxReceives: 4 * receives})
			if err != nil {
				to.Close()
				continue
			}
			h.conn = c
			close(h.ready)
			go h.pass()
			go h.answer()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-ended
	})
	return l.Addr().String()
}

func (h *spoilRDMA) Received(r *rdmacm.Recv) {
	call := bytes.Clone(r.Bytes)
	r.Release()
	<-h.ready
	h.conn.Provide(1, receiveSize)
	select {
	case h.calls <- call:
	default: // more calls than were granted
	}
}

func (h *spoilRDMA) Closed(error) {
	h.real.Close()
	close(h.calls)
}

// pass gives the calls to the real server.
func (h *spoilRDMA) pass() {
	for call := range h.calls {
		var header wire.Header
		if len(call) < wire.MinHeader || header.Parse(call) != nil || header.Reads.Len() > 0 {
			continue
		}
		if _, err := h.real.Write(record(call[header.Size:])); err != nil {
			return
		}
	}
}

// answer sends the mangled replies.
func (h *spoilRDMA) answer() {
	for {
		reply, err := readRecord(h.real)
		if err != nil {
			return
		}
		m := binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32(reply))
		for _, word := range []uint32{1, receives, 0, 0, 0, 0} { // version, credits, RDMA_MSG, three empty lists
			m = binary.BigEndian.AppendUint32(m, word)
		}
		for _, m := range h.of(append(m, reply...)) {
			if len(m) > receiveSize {
				m = m[:receiveSize]
			}
			h.conn.Post(&rdmacm.Chain{
				Work: []rdmacm.Work{{Op: rdmacm.OpSend, Local: [][]byte{m}}},
				Done: func(*rdmacm.Chain, error, int) {},
			})
		}
	}
}
