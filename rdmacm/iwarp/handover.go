package iwarp

import "github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"

// What the other parts ask of the transmitter. None of their locks is held.

// hold makes posts wait for release. The receiver calls it before it works on a
// run of FPDUs.
func (t *transmitter) hold() {
	t.mu.Lock()
	t.held = true
	t.mu.Unlock()
}

// release takes over the answers to the RDMA Reads of a run of FPDUs, and sends
// them and what was posted meanwhile. It says whether TCP took it all, and there was
// something.
func (t *transmitter) release(asked *answerQueue) (sent bool) {
	t.mu.Lock()
	t.held = false
	t.answers.join(asked)
	own := t.acquire()
	t.mu.Unlock()
	return own && t.transmit()
}

// lift lifts the ban on sending. What waits goes out with the next release.
func (t *transmitter) lift() {
	t.mu.Lock()
	t.fenced = false
	t.mu.Unlock()
}

// nudge sends another ready-to-receive message, unless something is being sent.
// It says false when the connection is at its end.
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

// refuse fails what is posted from now on. The lifecycle calls it when the
// connection ends: stopping is set.
func (t *transmitter) refuse() {
	t.mu.Lock()
	t.refusing = true
	t.idle.Broadcast()
	t.mu.Unlock()
}

// lastFPDU hands over the FPDU of a Terminate, for flush to send before anything
// else and nothing after it. It says false when nothing may be sent (any more).
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

// leave closes this half of the connection once what was posted is through.
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

// finish closes this half of the TCP connection if leave or drain was called and
// nothing is outstanding.
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

// drain sends what can be sent, after the peer has closed its half. It waits for
// the peer until the connection ends.
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

// stop lets nothing more go out, and waits for the sender to see that.
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

// ended says that this half was closed, with nothing outstanding.
func (t *transmitter) ended() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.finSent && t.head == nil
}

// wasReset says that the peer reset the connection before this half was closed.
func (t *transmitter) wasReset() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reset && !t.finSent
}

// sending says that there is something that the peer must take, or must let go.
func (t *transmitter) sending() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.owned || t.cursor != nil && t.fenced
}

// reading says that the peer must answer an RDMA Read.
func (t *transmitter) reading() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.readsOut > 0
}
