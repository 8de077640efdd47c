package rpc

import (
	"slices"
	"sync"
	"time"
)

// This file remembers calls that were answered with "try again", because their clients wait, although no call is in
// progress.

// putOffFor is the time after which a call that was put off, and did not come again, is forgotten.
// Linux's client tries again after at most 15 s (NFS4_POLL_RETRY_MAX).
const putOffFor = 17 * time.Second

// mostPutOff is the largest number of calls that are remembered.
const mostPutOff = 256

// makeRoomEvery is the least time between two searches of PutOff for calls to forget, because each looks at all of them.
const makeRoomEvery = time.Second

// A putOffKey tells apart what clients wait for. A repeated call has another XID.
type putOffKey struct {
	conn        *Conn
	row         *procedureRow
	part, group uint32
	wait        Wait
	object      string
}

type putOff struct {
	facts
	last time.Time
}

// putOffs has the calls that were put off.
type putOffs struct {
	mu  sync.Mutex
	all map[putOffKey]*putOff
	// full is when PutOff last made room.
	full time.Time
}

// PutOff tells that the program answers the call with "try again", and what the client then waits for. The other
// parameters are as for Doing; the object may be nil. Server.Calls shows the call for putOffFor.
func (c *Call) PutOff(why Wait, number, group uint32, object []byte) {
	if c.state.server == nil || c.Conn == nil {
		return
	}
	p, now := &c.state.server.putOff, time.Now()
	k := putOffKey{c.Conn, c.state.row, number, group, why, string(object[:min(len(object), largestObject)])}
	p.mu.Lock()
	defer p.mu.Unlock()
	if is := p.all[k]; is != nil {
		is.last, is.xid = now, c.Header.XID
		return
	}
	if len(p.all) >= mostPutOff {
		if now.Sub(p.full) < makeRoomEvery {
			return
		}
		p.full = now
		if p.forgetLocked(now); len(p.all) >= mostPutOff {
			return
		}
	}
	if p.all == nil {
		p.all = make(map[putOffKey]*putOff)
	}
	f := c.facts()
	f.first, f.subject = now, nil
	p.all[k] = &putOff{f, now}
}

// forgetLocked forgets what no client waits for any more.
func (p *putOffs) forgetLocked(now time.Time) {
	for k, is := range p.all {
		if now.Sub(is.last) > putOffFor || k.conn.Gone() {
			delete(p.all, k)
		}
	}
}

// forget forgets what no client waits for any more, so that it does not keep connections that have ended.
func (p *putOffs) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgetLocked(time.Now())
}

// describe lists the calls that clients make again and again, in the order in which they were first put off.
func (p *putOffs) describe() (all []CallInProgress) {
	p.mu.Lock()
	p.forgetLocked(time.Now())
	for k, is := range p.all {
		c := is.facts.describe(PutOff, is.last)
		c.Wait, c.Part, c.Group, c.Object = k.wait, k.part, k.group, []byte(k.object)
		all = append(all, c)
	}
	p.mu.Unlock()
	slices.SortFunc(all, func(a, b CallInProgress) int { return a.First.Compare(b.First) })
	return all
}
