package rdma

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// The sending side of version 2: credits2 says which messages may be sent, and the others wait in a queue. One
// goroutine posts at a time (turn), so that messages leave in the order of their limits. It holds no lock while it
// posts, because the device may call back.

// The states of version2.turn.
const (
	turnFree  = iota
	turnTaken // a goroutine posts messages
	turnAgain // that goroutine has to look for more messages before it ends
)

// permit implements framing. The next message of this side tells the peer (credits2.release).
func (v *version2) permit(n int) {
	v.mu.Lock()
	v.k.promise(n)
	v.kept += uint32(n)
	v.window += uint32(n)
	v.mu.Unlock()
}

func (v *version2) post(o *outbound) bool {
	o.permits = 1
	return v.sendAll(o)
}

// discard implements framing.
func (v *version2) discard() { v.forgive(false, true) }

// forgive gives the peer a credit for a message that gets no answer. If keep is true, the peer gets it only when its
// client's calls do not occupy too much memory any more. If the peer needs a grant then (credits2.owes), forgive sends
// one. If often is false, forgive sends a grant only if the peer is starved.
func (v *version2) forgive(keep, often bool) {
	withheld := v.withheld()
	v.mu.Lock()
	v.k.promise(1)
	if keep {
		v.kept++
	} else {
		v.may++
	}
	v.release(withheld)
	if v.kept > 0 {
		v.watch()
	}
	v.owed = v.owed || v.starved() || often && v.owes()
	more := v.owed || v.running // the next part may go on with the reserve
	v.mu.Unlock()
	if more {
		v.kick()
	}
}

// watch lets the responder call eased whenever a call of the peer has ended. It is called if eased will have something
// to do: a call of this side waits because mayCall has not permitted it, or credits are kept back.
func (v *version2) watch() {
	if s := v.k.responder; s != nil {
		s.watch.Store(v)
	}
}

// eased permits calls in both directions after calls of the peer have ended.
func (v *version2) eased() {
	withheld := v.withheld()
	v.mu.Lock()
	v.release(withheld)
	v.owed = v.owed || v.owes()
	blocked, owed := v.blocked, v.owed
	v.blocked = false
	if v.kept == 0 {
		v.k.responder.watch.Store(nil)
	}
	v.mu.Unlock()
	if owed {
		v.kick()
	}
	if blocked {
		v.resume()
	}
}

// mayCall implements framing. A call uses no credit that this side needs to answer the calls of the peer, or to send
// the messages that wait.
func (v *version2) mayCall() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.mayCallLocked() {
		return true
	}
	v.blocked = true
	v.watch()
	if !v.mayCallLocked() { // a call may have ended before watch
		return false
	}
	v.blocked = false
	return true
}

func (v *version2) mayCallLocked() bool {
	needed := v.waiting
	if v.k.responder != nil {
		needed += int(v.k.calls.Load() &^ drainBit)
	}
	return v.released && (v.k.dialed || v.reverse && !v.callsRefused) && int(v.free()) > needed
}

// granted returns how many messages this side may send at present.
func (v *version2) granted() uint32 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return uint32(max(0, v.free()))
}

// mayLocked reports whether this side may send a message now that is not the next part of another one (mayContinue).
// The peer must permit it (§4.2.1). Before the version is settled, not more than one message may be under way (§4.3).
// The parts of an RPC message count as one there: the client may have nothing to say before it has all of them.
func (v *version2) mayLocked() bool {
	return v.free() > 0 && (v.released || v.sent < v.alone)
}

// send sends a message, or lets it wait until the peer permits it. The result is that of messages.send.
func (v *version2) send(o *outbound) bool {
	withheld := v.withheld()
	v.mu.Lock()
	if v.ended {
		v.mu.Unlock()
		return v.k.send(o)
	}
	if v.waiting > 0 || !v.mayLocked() || !v.turn.CompareAndSwap(turnFree, turnTaken) {
		v.queueLocked(o)
		v.mu.Unlock()
		v.kick()
		return false
	}
	v.countLocked(o, withheld)
	v.mu.Unlock()
	short := v.k.send(o)
	if !v.turn.CompareAndSwap(turnTaken, turnFree) {
		v.pump()
	}
	return short
}

// sendRun sends an RPC message in parts: first the messages in parts, then o.
func (v *version2) sendRun(parts []outbound, o *outbound) {
	v.mu.Lock()
	if v.ended {
		v.mu.Unlock()
		v.k.send(o)
		return
	}
	if o.role == roleAnswer {
		v.inParts[v.nextInParts] = partedReply{binary.BigEndian.Uint32(o.head), true}
		v.nextInParts = (v.nextInParts + 1) % len(v.inParts)
	}
	for i := range parts {
		v.queueLocked(&parts[i])
	}
	v.queueLocked(o)
	v.mu.Unlock()
	v.kick()
}

// queueLocked lets a message wait. It counts as work that the peer has to let go on (holder.Progress).
func (v *version2) queueLocked(o *outbound) {
	if v.last == nil {
		v.first = o
	} else {
		v.last.next = o
	}
	v.last = o
	v.waiting++
	v.k.sent.Add(1)
	v.waitLocked()
}

// unpermitted returns how many answers to calls of a client wait until the client permits them. In version 1 it is 0.
// Any goroutine may call unpermitted, because the framing does not change once the version is known.
func (k *connection) unpermitted() int64 {
	if k.version.Load() != wire.Version2 {
		return 0
	}
	return k.framing.(*version2).unpermitted()
}

// unpermitted returns how many answers to calls of the peer wait until it permits them.
func (v *version2) unpermitted() (n int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.free() > 0 { // they wait for the goroutine that posts
		return 0
	}
	for o := v.first; o != nil; o = o.next {
		if o.role == roleAnswer && !o.middle {
			n++
		}
	}
	return n
}

// unqueueLocked takes a message out of the queue: the one that follows before, or the first one if before is nil.
func (v *version2) unqueueLocked(before *outbound) *outbound {
	at := &v.first
	if before != nil {
		at = &before.next
	}
	o := *at
	if *at = o.next; o.next == nil {
		v.last = before
	}
	o.next = nil
	v.waiting--
	return o
}

// countLocked counts a message that is about to be posted, and tells the peer in it what it may send. Only now
// does an answer permit another message: a peer that takes no answers must not go on to call.
func (v *version2) countLocked(o *outbound, withheld uint32) {
	ready := o.permits
	if v.surplus > 0 && o.role == roleCall && ready > 0 {
		v.surplus--
		v.may-- // post adds it again
		ready--
	}
	v.k.promise(ready)
	stamp(o, v.credits2.post(o.role, o.permits, withheld))
	o.permits = 0
	v.running, v.owed = o.middle, false
	if v.kept > 0 {
		v.watch()
	}
	v.messages.sent++
	if o.middle {
		v.k.stats.versions.partsSent.Add(1)
	}
}

// withheld returns how many messages the peer may not send at present, although this side is ready for
// them, because its client's calls occupy too much memory (responder.credits).
func (v *version2) withheld() uint32 {
	if v.k.responder == nil {
		return 0
	}
	granted := v.k.granted.Load()
	return granted - min(granted, v.k.responder.credits()) // granted may have grown meanwhile
}

// kick posts what may be posted. If another goroutine has the turn, kick leaves that to it.
func (v *version2) kick() {
	for {
		switch {
		case v.turn.CompareAndSwap(turnFree, turnTaken):
			v.pump()
			return
		case v.turn.CompareAndSwap(turnTaken, turnAgain), v.turn.Load() == turnAgain:
			return
		}
	}
}

// pump posts what may be posted. Its caller has the turn.
func (v *version2) pump() {
	for {
		v.turn.Store(turnTaken)
		for o := v.next(); o != nil; o = v.next() {
			if v.k.send(o) {
				o.sent(nil, -1)
			}
			if o != &v.grant {
				v.k.returned()
			}
		}
		if v.turn.CompareAndSwap(turnTaken, turnFree) {
			return
		}
	}
}

// next takes the next message to post, or returns nil. After the end it takes each message that waits, and the
// device flushes it. So the last part of an RPC message is not done before those that were posted.
func (v *version2) next() *outbound {
	withheld := v.withheld()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ended {
		if v.first == nil {
			return nil
		}
		return v.unqueueLocked(nil)
	}
	if before, ok := v.pickLocked(); ok {
		o := v.unqueueLocked(before)
		v.countLocked(o, withheld)
		return o
	}
	owed := v.owed || v.waiting > 0 && v.bothUsed()
	if !owed || v.granting || v.running || !v.released || !v.mayGrant() {
		return nil
	}
	v.granting = true
	v.grant.reset()
	v.grant.setHeaderSize(wire.PrefixSize)
	wire.PutGrant(v.grant.head, 0)
	v.countLocked(&v.grant, withheld)
	return &v.grant
}

// pickLocked chooses the message to post next: the one that follows before, or the first one if before is nil. A call
// in parts that waits for credits (credits2.mayBegin) does not hold up the messages behind it. An answer in parts needs
// only one credit to begin, because the peer may need the answer before it can answer calls of this side.
func (v *version2) pickLocked() (before *outbound, ok bool) {
	switch {
	case v.first == nil:
		return nil, false
	case v.running:
		return nil, v.mayContinue()
	case !v.mayLocked():
		return nil, false
	}
	for o := v.first; o != nil; o = before.next {
		if !o.middle {
			return before, true
		}
		last := o
		for last.middle {
			last = last.next
		}
		if o.role == roleAnswer || v.mayBegin(o.sends) {
			v.frontLocked(before, o, last)
			return nil, true
		}
		before = last
	}
	return nil, false
}

// frontLocked moves the messages from o to last to the front of the queue. o follows before, or is the first message
// already if before is nil.
func (v *version2) frontLocked(before, o, last *outbound) {
	if before == nil {
		return
	}
	if before.next = last.next; last.next == nil {
		v.last = before
	}
	v.first, last.next = o, v.first
}

func (v *version2) grantSent(error, int) {
	v.mu.Lock()
	v.granting = false
	v.mu.Unlock()
	v.kick() // the peer may need another one meanwhile
}

// creditPatience is how long messages may wait at least although the peer permits none (waitTime), and how long an
// RPC message of the peer may be incomplete. A test makes it shorter.
var creditPatience = 30 * time.Second

var errNoCredits = errors.New("rdma: the peer has not permitted a message for too long")

// waitTime is how long messages may wait although the peer permits none. On the side of a client that is not less
// than a call may wait for its answer, because answers permit messages.
func (v *version2) waitTime() time.Duration {
	if q := v.k.requester; q != nil {
		return max(creditPatience, q.timeout)
	}
	return creditPatience
}

// waitLocked starts the timer that ends the connection if nothing is sent for waitTime while messages wait. What
// waits occupies memory of this side.
func (v *version2) waitLocked() {
	if v.patience != nil || v.ended {
		return
	}
	sent := v.sent
	v.patience = time.AfterFunc(v.waitTime(), func() {
		v.mu.Lock()
		v.patience = nil
		waiting := v.waiting > 0
		late := waiting && v.sent == sent && !v.ended
		if waiting && !late {
			v.waitLocked()
		}
		v.mu.Unlock()
		if late {
			v.k.endConnection(faultStalled, errNoCredits)
		}
	})
}

// closed implements framing. The goroutine that has the turn hands what waits to the device.
func (v *version2) closed() {
	v.endRun()
	v.mu.Lock()
	v.endLocked()
	v.mu.Unlock()
	v.kick()
	v.k.stats.versions.leave(v)
}

// replaced is called instead of closed if the connection goes on with version 1. What waits is dropped: only errors of
// the framing itself can wait before the version is settled.
func (v *version2) replaced() {
	v.mu.Lock()
	v.endLocked()
	dropped := v.waiting
	v.first, v.last, v.waiting = nil, nil, 0
	v.mu.Unlock()
	for range dropped {
		v.k.returned()
	}
	v.k.stats.versions.leave(v)
}

// endLocked stops the timers. They do not start again.
func (v *version2) endLocked() {
	v.ended = true
	for _, t := range []*time.Timer{v.patience, v.runTimer} {
		if t != nil {
			t.Stop()
		}
	}
}
