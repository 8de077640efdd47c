package iwarp

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// An inboundMessage is the buffer of a Send that arrives, and the Recv that
// hands it over.
type inboundMessage struct {
	rdmacm.Recv
	stock *messages
	class int
	store []byte
	state atomic.Uint32
}

// States of an inboundMessage that was handed over. Where the Handler releases it
// before Received returns, the receiver has it back for the next one.
const (
	lent     uint32 = iota // Received has not returned
	kept                   // it has, and the Handler has the message still
	released               // before Received returned
)

// lend comes before Received, and back after it: it is true where the message was
// released meanwhile.
func (m *inboundMessage) lend() { m.state.Store(lent) }

func (m *inboundMessage) back() bool { return !m.state.CompareAndSwap(lent, kept) }

// messages is the stock of receive buffers of all connections, by size. What
// is in use is bounded by what the connections promised; what is idle goes with
// the next garbage collections.
type messages struct {
	classes [messageClasses]sync.Pool
}

// Buffers are powers of two from 512 bytes up to 1 MiB; longer ones are made
// for the occasion.
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

// put gives the buffer back to the stock.
func (m *inboundMessage) put() {
	m.Bytes, m.Invalidated = nil, 0
	if m.class != oddSized {
		m.stock.classes[m.class].Put(m)
	}
}

// freeMessage is the Free of a Recv.
func freeMessage(r *rdmacm.Recv) {
	m := r.Provider.(*inboundMessage)
	if m.state.Swap(released) == kept {
		m.put()
	}
}
