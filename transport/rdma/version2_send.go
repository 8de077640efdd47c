package rdma

import (
	"errors"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// Credits of version 2 (§4.2.1). The third word of a message is the number of messages that its receiver
// may send in all. The draft says that its sender adds the messages that it has sent to those that it can
// take. For unequal traffic that cannot work, so this side adds to the messages that it has received and
// dealt with. As in version 1, each call that this side sends permits one more message, its answer, and so
// does each message of the peer, when it is answered or discarded. So a peer has at most as many calls
// outstanding as were granted, and this side is ready for all that it permits, and for spareReceives more.

// permit makes this side ready to receive n further messages.
func (v *version2) permit(n int) {
	v.mu.Lock()
	v.permitLocked(n)
	v.mu.Unlock()
}

func (v *version2) permitLocked(n int) {
	v.k.promise(n)
	v.permitted += uint32(n)
}

func (v *version2) post(o *outbound) bool {
	o.permits = 1
	return v.sendAll(o)
}

// discard implements framing. If the peer may send less than half of what this side is ready for, and no
// other message tells it that there is more, it gets a grant (§4.2.1.1).
func (v *version2) discard() {
	v.mu.Lock()
	v.permitLocked(1)
	v.owed = v.owed || v.permitted-v.said >= max(1, v.ready/2)
	v.mu.Unlock()
	v.kick()
}

// mayCall implements framing.
func (v *version2) mayCall() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	may := v.released && (v.k.dialed || v.reverse) && int32(v.sent+uint32(len(v.queue))-v.limit) < 0
	v.blocked = !may
	return may
}

// granted returns how many messages this side may send at present.
func (v *version2) granted() uint32 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return uint32(max(0, int32(v.limit-v.sent)))
}

// mayLocked reports whether this side may send a message now: the peer permits one (§4.2.1), and before
// the version is settled not more than one is under way (§4.3).
func (v *version2) mayLocked() bool {
	return int32(v.sent-v.limit) < 0 && (v.released || v.sent < v.alone)
}

// send sends a message, which may have parts, or lets it wait until the peer permits it. The result is that
// of messages.send, for the last part.
func (v *version2) send(all ...*outbound) bool {
	o := all[len(all)-1]
	withheld := v.withheld()
	v.mu.Lock()
	if v.ended {
		v.mu.Unlock()
		return v.k.send(o)
	}
	if len(all) > 1 || v.posting || len(v.queue) > 0 || !v.mayLocked() {
		v.queue = append(v.queue, all...)
		// They count as work that the peer has to let go on (holder.Progress).
		v.k.sent.Add(uint64(len(all)))
		v.waitLocked()
		v.mu.Unlock()
		v.kick()
		return false
	}
	v.posting = true
	v.countLocked(o, withheld)
	v.mu.Unlock()
	short := v.k.send(o)
	v.pump()
	return short
}

// countLocked counts a message that is about to be posted, and tells the peer in it what it may send.
// withheld is the result of withheld. Only now does an answer permit another message: a peer that takes
// no answers must not go on to call.
func (v *version2) countLocked(o *outbound, withheld uint32) {
	v.permitLocked(o.permits)
	o.permits = 0
	v.running = o.middle
	v.sent++
	v.said, v.owed = v.permitted, false
	stamp(o, v.permitted-withheld)
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

// kick posts what waits, unless another goroutine does so.
func (v *version2) kick() {
	v.mu.Lock()
	if v.posting || v.ended || len(v.queue) == 0 && !v.owed {
		v.mu.Unlock()
		return
	}
	v.posting = true
	v.mu.Unlock()
	v.pump()
}

// pump posts what waits, as far as the peer permits. Its caller has set posting: one goroutine posts at a
// time, so that credits never go backwards. No lock is held during a post, because the device may call back.
func (v *version2) pump() {
	for {
		withheld := v.withheld()
		v.mu.Lock()
		o := v.nextLocked(withheld)
		if o == nil {
			v.posting = false
			v.mu.Unlock()
			return
		}
		v.mu.Unlock()
		if v.k.send(o) {
			o.sent(nil, -1)
		}
		if o != &v.grant {
			v.k.returned()
		}
	}
}

// nextLocked takes the next message to post, or returns nil. A grant may also use the one message more than
// permitted for which a peer is always ready (§4.2.1.1). While a message in parts is sent, its next part may,
// instead of the grant.
func (v *version2) nextLocked(withheld uint32) *outbound {
	if v.ended {
		return nil
	}
	spare := v.released && int32(v.sent-v.limit) <= 0
	if len(v.queue) > 0 && (v.mayLocked() || v.running && spare) {
		o := v.queue[0]
		v.queue[0] = nil
		if v.queue = v.queue[1:]; len(v.queue) == 0 {
			v.queue = nil
		}
		v.countLocked(o, withheld)
		return o
	}
	if !v.owed || v.granting || v.running || !spare {
		return nil
	}
	v.granting = true
	v.grant.reset()
	v.grant.setHeaderSize(wire.PrefixSize)
	wire.PutGrant(v.grant.head, 0)
	v.countLocked(&v.grant, withheld)
	return &v.grant
}

func (v *version2) grantSent(error, int) {
	v.mu.Lock()
	v.granting = false
	v.mu.Unlock()
	v.kick() // the peer may need another one meanwhile
}

// creditPatience is how long messages may wait although the peer permits none. A test makes it shorter.
var creditPatience = 30 * time.Second

var errNoCredits = errors.New("rdma: the peer has not permitted a message for too long")

// waitLocked starts the timer that ends the connection if nothing is sent for creditPatience while messages
// wait. What waits occupies memory of this side.
func (v *version2) waitLocked() {
	if v.patience != nil || v.ended {
		return
	}
	sent := v.sent
	v.patience = time.AfterFunc(creditPatience, func() {
		v.mu.Lock()
		v.patience = nil
		waiting := len(v.queue) > 0
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

// closed implements framing: it flushes what waits.
func (v *version2) closed() {
	v.endRun()
	v.mu.Lock()
	v.ended = true
	queue := v.queue
	v.queue = nil
	if v.patience != nil {
		v.patience.Stop()
	}
	v.mu.Unlock()
	for _, o := range queue {
		v.k.returned()
		o.sent(rdmacm.ErrFlushed, -1)
	}
}
