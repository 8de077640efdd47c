package iwarp

import "github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"

// Methods of the transmitter that the connection's other parts call. The callers hold none of
// their own locks.

// hold makes posted work wait for release. The receiver calls it before it processes the FPDUs in
// the ring, so that work posted by the Handler goes out together.
func (t *transmitter) hold() {
	t.mu.Lock()
	t.held = true
	t.mu.Unlock()
}

// answer queues the answer to an RDMA Read of the peer. Unless another goroutine is the sender, the
// answer goes out when the receiver next calls release.
func (t *transmitter) answer(a *response) {
	t.answering.Add(1)
	t.mu.Lock()
	t.answers = append(t.answers, a)
	t.mu.Unlock()
}

// release lets posted work be sent again after hold. It sends the work posted meanwhile and the
// answers to the peer's RDMA Reads. It returns true if it sent something and TCP took all of it.
func (t *transmitter) release() (sent bool) {
	t.mu.Lock()
	t.held = false
	own := t.acquire()
	t.mu.Unlock()
	return own && t.transmit()
}

// unfence allows a responder to send, because the initiator's first FPDU has arrived. Work that
// was posted before goes out when the receiver next calls release.
func (t *transmitter) unfence() {
	t.mu.Lock()
	t.fenced = false
	t.mu.Unlock()
}

// nudge sends an empty RDMA Write, as another ready-to-receive message, unless a goroutine is
// sending already. It returns false if the connection is ending, so that no further nudge is
// needed.
func (t *transmitter) nudge() bool {
	t.mu.Lock()
	refusing, own := t.refusing, false
	if !refusing && t.rtr == 0 && !t.owned {
		t.rtr = wire.RTRWrite
		own = t.acquire()
	}
	t.mu.Unlock()
	if own {
		t.transmit()
	}
	return !refusing
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
