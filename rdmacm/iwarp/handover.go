package iwarp

import "github.com/nfsrdmad/nfsrdmad/rdmacm"

// Methods of the transmitter that the connection's other parts call at the beginning and the end of
// the connection, and for its watch. The callers hold none of their own locks.

// unfence allows a responder to send, because the initiator's first FPDU has arrived. Work that
// was posted before goes out when the receiver next calls release.
func (t *transmitter) unfence() {
	t.mu.Lock()
	t.fenced = false
	t.mu.Unlock()
}

// refuse makes later posts fail. The lifecycle calls it when the connection ends, after it
// has set stopping.
func (t *transmitter) refuse() {
	t.mu.Lock()
	t.refusing = true
	t.idle.Broadcast()
	t.mu.Unlock()
}

// lastFPDU queues the FPDU of a Terminate. The next flush sends it before all other work, and
// nothing is sent after it. lastFPDU returns false if nothing may be sent yet, because the peer's
// first FPDU has not arrived, or if nothing may be sent any more.
func (t *transmitter) lastFPDU(fpdu []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refusing = true
	if t.fenced || t.broken || t.finSent {
		return false
	}
	t.terminate = fpdu
	return true
}

// leave makes later posts fail, and closes this side's half of the connection once all posted
// work is done.
func (t *transmitter) leave() {
	t.mu.Lock()
	t.refusing, t.leaving = true, true
	own := t.acquire()
	t.mu.Unlock()
	if own {
		t.transmit()
		return
	}
	t.finish()
}

// finish closes this side's half of the TCP connection if leave or drain was called and no work
// is outstanding.
func (t *transmitter) finish() {
	t.mu.Lock()
	fin := t.leaving && !t.finSent && !t.owned && t.head == nil && t.answering.Load() == 0 &&
		t.terminate == nil && !t.broken
	t.finSent = t.finSent || fin
	t.mu.Unlock()
	if fin {
		t.sock.CloseWrite()
	}
}

// drain sends the remaining work after the peer has closed its half. It waits until all is
// sent or the connection ends.
func (t *transmitter) drain() {
	t.mu.Lock()
	t.refusing, t.leaving = true, true
	for !t.life.stopping.Load() && (t.owned || t.sendable()) {
		if t.acquire() {
			t.mu.Unlock()
			t.transmit()
			t.mu.Lock()
			continue
		}
		t.idle.Wait()
	}
	t.mu.Unlock()
}

// stop forbids sending, and waits until no goroutine is the sender.
func (t *transmitter) stop() {
	t.mu.Lock()
	t.refusing, t.broken = true, true
	for t.owned {
		t.sock.SetDeadline(longAgo)
		t.idle.Wait()
	}
	t.dropBatch()
	t.mu.Unlock()
}

// ended reports whether this side's half was closed and no work is outstanding.
func (t *transmitter) ended() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.finSent && t.head == nil
}

// wasReset reports whether the peer reset the connection before this side's half was closed.
func (t *transmitter) wasReset() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reset && !t.finSent
}

// sending reports whether this side has something to send that waits for the peer. Either a
// goroutine is sending, and the peer must read, or the initiator must first send its first FPDU.
func (t *transmitter) sending() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.owned || t.cursor != nil && t.fenced
}

// reading reports whether an RDMA Read waits for the peer's response.
func (t *transmitter) reading() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.readsOut > 0
}

// readFailed records that the peer ended the connection because of an RDMA Read of ch. n is the
// number of older Reads of ch that are not done.
func (t *transmitter) readFailed(ch *rdmacm.Chain, n int, why error) {
	t.mu.Lock()
	st := postingOf(ch)
	st.err, st.failed = why, nthRead(ch, st.readsDone+n)
	t.mu.Unlock()
}

// nthRead returns the index of a chain's n-th RDMA Read, counted from 0, or -1.
func nthRead(ch *rdmacm.Chain, n int) int {
	for i := range ch.Work {
		if ch.Work[i].Op != rdmacm.OpRead {
			continue
		}
		if n == 0 {
			return i
		}
		n--
	}
	return -1
}

// flushAll completes all outstanding chains; unfinished ones get err. Later posts fail at once.
// Only conclude calls it, when no goroutine transmits any more.
func (t *transmitter) flushAll(err error) {
	t.mu.Lock()
	t.flushErr = err
	for t.head != nil || t.completing {
		if t.completing {
			t.idle.Wait()
			continue
		}
		t.mu.Unlock()
		t.complete()
		t.mu.Lock()
	}
	t.flushed = true
	t.cursor, t.tail = nil, nil
	t.answers = nil
	t.readsOut = 0
	t.mu.Unlock()
}

// fillTerminate appends the waiting Terminate, the last FPDU that this side sends. It returns
// false if no Terminate waits.
func (t *transmitter) fillTerminate(b *batch) bool {
	t.mu.Lock()
	fpdu := t.terminate
	t.terminate, t.terminated = nil, t.terminated || fpdu != nil
	t.mu.Unlock()
	if fpdu == nil {
		return false
	}
	if t.marked != nil {
		t.marked.whole(b, fpdu, t.agreed.CRC)
	} else {
		b.whole(len(fpdu), t.segment)
		copy(b.grow(len(fpdu)), fpdu)
	}
	b.full = true
	t.out.active = false
	return true
}
