package rdma

import (
	"errors"
	"time"

	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// The sending side of version 2: credits2 says which messages may be sent, and the others wait in a queue. One
// goroutine posts at a time (turn), so that messages leave in the order of their limits. It holds no lock
// meanwhile, because the device may call back.

// The states of version2.turn.
const (
	turnFree  = iota
	turnTaken // a goroutine posts messages
	turnAgain // and it looks for more before it ends
)

// permit implements framing. The answers to calls tell the peer.
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

// forgive makes good a message of the peer that gets no answer, at once or, if keep is true, when its client's
// calls do not occupy too much memory any more. If the peer needs a grant then, it gets one. If often is false,
// it gets one only if it could send nothing otherwise.
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

// watch calls eased for each call of the peer that ends from now on, as long as there is something to do: a call
// of this side waits because mayCall has not permitted it, or permissions are kept back.
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

// mayCall implements framing. Calls leave those credits alone that this side needs to answer the calls of the
// peer, and to send what waits.
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
	return v.released && (v.k.dialed || v.reverse) && int(v.free()) > needed
}

// granted returns how many messages this side may send at present.
func (v *version2) granted() uint32 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return uint32(max(0, v.free()))
}

// mayLocked reports whether this side may send a message of its own now: the peer permits one (§4.2.1), and before
// the version is settled not more than one is under way (§4.3). The parts of an RPC message count as one: without
// them the client may have nothing more to say.
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

// sendRun sends a message in parts, of which o is the last.
func (v *version2) sendRun(parts []outbound, o *outbound) {
	v.mu.Lock()
	if v.ended {
		v.mu.Unlock()
		v.k.send(o)
		return
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

// unpermitted returns how many answers to calls of a client wait until it permits them: none, if its version is not 2. Any
// goroutine may call it, because the framing stays once the version is known.
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

// unqueueLocked takes the message behind the message before out of the queue, or the first one if before is nil.
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
	v.k.promise(o.permits)
	stamp(o, v.credits2.post(o.role, o.permits, withheld))
	o.permits = 0
	v.running, v.owed = o.middle, false
	if v.kept > 0 {
		v.watch()
	}
	v.k.stats.versions.sent.Add(1)
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

// kick posts what may be posted, or lets the goroutine do it that posts already.
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

// pickLocked chooses the message to post next: it is the one behind before, or the first one if before is nil. A
// call in parts that waits for credits (credits2.mayBegin) does not hold up the messages behind it. An answer never
// waits for more credits than one: the peer may need it to answer calls of this side.
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

// frontLocked makes the messages from o to last, which stand behind before, the first ones of the queue.
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
	v.ended = true
	for _, t := range []*time.Timer{v.patience, v.runTimer} {
		if t != nil {
			t.Stop()
		}
	}
	v.mu.Unlock()
	v.kick()
}
