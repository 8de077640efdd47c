package iwarp

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// An inboundMessage is the buffer of an arriving Send, and the Recv that passes it to the
// Handler.
type inboundMessage struct {
	rdmacm.Recv
	stock *messages
	class int
	store []byte
	state atomic.Uint32
}

// States of an inboundMessage that was passed to the Handler. If the Handler releases it
// before Received returns, the receiver uses it again for the next message.
const (
	lent     uint32 = iota // Received has not returned
	kept                   // Received has returned, and the Handler still has the message
	released               // the Handler released the message
)

// lend and back mark the start and the end of the call of Handler.Received. back returns true if
// the Handler released the message during the call.
func (m *inboundMessage) lend() { m.state.Store(lent) }

func (m *inboundMessage) back() bool { return !m.state.CompareAndSwap(lent, kept) }

// messages is the pool of receive buffers of all connections, by size. The number in use is
// limited by how many messages the connections promise to accept (rdmacm.Conn.Provide). Garbage
// collections free the idle ones.
type messages struct {
	classes [messageClasses]sync.Pool
}

// Buffer sizes are powers of two from 512 bytes to 1 MiB. A longer buffer (oddSized) is allocated
// for one message.
const (
	minMessageShift = 9
	messageClasses  = 12
	oddSized        = -1
)

func (s *messages) get(size int) *inboundMessage {
	class := 0
	if size > 1<<minMessageShift {
		class = bits.Len(uint(size-1)) - minMessageShift
	}
	if class >= messageClasses {
		m := &inboundMessage{stock: s, class: oddSized, store: make([]byte, size)}
		m.Provider, m.Free = m, freeMessage
		return m
	}
	if m, ok := s.classes[class].Get().(*inboundMessage); ok {
		return m
	}
	m := &inboundMessage{stock: s, class: class, store: make([]byte, 1<<(minMessageShift+class))}
	m.Provider, m.Free = m, freeMessage
	return m
}

// put returns the buffer to the pool.
func (m *inboundMessage) put() {
	m.Bytes, m.Invalidated = nil, 0
	if m.class != oddSized {
		m.stock.classes[m.class].Put(m)
	}
}

// freeMessage is called when the Handler releases a message. It is the Free function of its Recv.
func freeMessage(r *rdmacm.Recv) {
	m := r.Provider.(*inboundMessage)
	if m.state.Swap(released) == kept {
		m.put()
	}
}
