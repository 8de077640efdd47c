package iwarp

import (
	"slices"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// A response is the answer to an RDMA Read of the peer, until all its FPDUs are built.
type response struct {
	request wire.Read
	region  *region   // nil if the Read has length 0
	piece   [1][]byte // the part of the region that is sent
	// header is the DDP header of the request, for a Terminate that quotes it.
	header [wire.UntaggedSize]byte
}

// answer queues the answer to an RDMA Read of the peer. Unless another goroutine is the sender, the
// answer goes out when the receiver next calls release.
func (t *transmitter) answer(a *response) {
	t.answering.Add(1)
	t.mu.Lock()
	t.answers = append(t.answers, a)
	t.mu.Unlock()
}

// startAnswer begins an RDMA Read Response.
func (t *transmitter) startAnswer(a *response) {
	t.out = outgoing{
		active: true, op: wire.ReadResponse, answer: a, left: int(a.request.Size),
		stag: a.request.SinkSTag, taggedOffset: a.request.SinkOffset,
	}
}

// putAnswer appends the next FPDU of a Read Response. It returns false if the memory is no
// longer exposed.
func (t *transmitter) putAnswer(b *batch) bool {
	t.referring.mu.Lock()
	defer t.referring.mu.Unlock()
	m := &t.out
	r, q := m.answer.region, &m.answer.request
	r.mu.Lock()
	memory := r.memory
	r.mu.Unlock()
	if memory == nil {
		return false
	}
	at := q.SourceOffset - r.base + uint64(int(q.Size)-m.left)
	m.pieces = append(m.answer.piece[:0], memory[at:at+uint64(m.left)])
	m.offset = 0
	b.exposed, b.exposing = true, true
	t.referring.batch = b
	t.appendNextFPDU(b)
	b.exposing = false
	return true
}

// giveBackPlace removes the oldest answer, whose last FPDU is built, and so allows the peer one
// more RDMA Read. It does not wait until TCP has taken that FPDU, because a peer that has the
// whole response may send its next Read at once. If the peer does not read, this side still holds
// no more than the agreed number of Reads and one batch. mu is held.
func (t *transmitter) giveBackPlace() {
	a := t.answers[0]
	t.answers = slices.Delete(t.answers, 0, 1)
	t.answering.Add(-1)
	a.region, a.piece[0] = nil, nil
	t.p.responses.Put(a)
}

// notExposed ends the connection because the memory of the current Read Response is no longer exposed.
func (t *transmitter) notExposed() {
	m := &t.out
	// The quoted request names only the part that was not answered yet.
	rest := m.answer.request
	done := uint64(int(rest.Size) - m.left)
	rest.SinkOffset += done
	rest.SourceOffset += done
	rest.Size -= uint32(done)
	var quoted [wire.ReadRequestSize]byte
	rest.Put(quoted[:])
	m.active = false
	t.life.fault(&wire.Termination{
		Cause: wire.RDMAPInvalidSTag, DDP: m.answer.header[:], RDMAP: quoted[:],
		SegmentLength: wire.UntaggedSize + wire.ReadRequestSize,
	}, nil)
	t.mu.Lock()
	if t.terminate == nil {
		// The method fault has queued no Terminate, because the connection was already ending.
		// So nothing more may be sent.
		t.broken = true
	}
	t.mu.Unlock()
}
