package hostile

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// Processor returns the processor time that the daemon has used: that of all its threads, those that have ended
// included, in the program and in the kernel.
func (d *Daemon) Processor() time.Duration {
	var used unix.Timespec
	const ofProcess = 2 // CPUCLOCK_SCHED
	clock := ^int32(d.PID())<<3 | ofProcess
	if err := unix.ClockGettime(clock, &used); err != nil {
		d.t.Errorf("the processor time of the daemon: %v", err)
	}
	return time.Duration(used.Nano())
}

// A cost is what one call costs the daemon, and its bytes, without record marks and headers of RPC-over-RDMA.
type cost struct {
	processor      time.Duration
	sent, received int
	end            string // how the call ended
}

func (c cost) String() string {
	return fmt.Sprintf("%v, %d bytes for %d, %s", c.processor, c.received, c.sent, c.end)
}

// A payer makes calls on one connection to find out what they cost.
type payer struct {
	*client4
	daemon *Daemon
	// sequences has the sequence number of the last request in each slot of the session, if there is one.
	sequences []uint32
}

const (
	// inFlight is the number of calls that a payer has in progress, fewer than the credits of a stranger.
	inFlight = 8
	// perRound calls make a round. The cost is that of the cheapest of the rounds, because other work of the
	// daemon may fall into the others.
	perRound, rounds = 32, 2
)

// dialPayer connects a payer over one of the Transports.
func dialPayer(ctx context.Context, d *Daemon, transport string, from netip.Addr) (*payer, func(), error) {
	target := Target{TCP: d.TCP, RDMA: d.RDMA, Source: func(int) netip.Addr { return from }}
	l, end, err := dialLink(ctx, target, transport, 0)
	if err != nil {
		return nil, nil, err
	}
	return &payer{client4: &client4{link: l}, daemon: d}, end, nil
}

// pay makes rounds of calls, and returns what one call costs.
func (p *payer) pay(message func(xid uint32) []byte) (c cost, err error) {
	c.processor = math.MaxInt64
	for range rounds {
		before := p.daemon.Processor()
		for began, ended := 0, 0; ended < perRound; {
			if began < perRound && began-ended < inFlight {
				p.xid++
				m := message(p.xid)
				c.sent = len(m)
				if err := p.put(m); err != nil {
					return c, err
				}
				began++
				continue
			}
			reply, err := p.next()
			if err != nil {
				return c, err
			}
			if len(reply) >= 8 && be.Uint32(reply[4:]) == 0 {
				continue // a callback
			}
			ended++
			c.received, c.end = max(c.received, len(reply)), ending(reply)
		}
		c.processor = min(c.processor, (p.daemon.Processor()-before)/perRound)
	}
	return c, nil
}

// ending says how a call ended: the words that follow the verifier.
func ending(reply []byte) string {
	const words = 24 // XID, reply, accepted, verifier (flavor, length), accept_stat
	switch {
	case len(reply) < words || be.Uint32(reply[8:]) != 0:
		return fmt.Sprintf("%x", reply)
	case be.Uint32(reply[words-4:]) != 0:
		return fmt.Sprintf("accept_stat %d", be.Uint32(reply[words-4:]))
	case len(reply) == words:
		return "void"
	}
	return fmt.Sprintf("status %d", be.Uint32(reply[words:]))
}

// compound returns a compound. If inSession is true, it begins with SEQUENCE.
func (p *payer) compound(minor uint32, inSession bool, ops ...op4) func(xid uint32) []byte {
	return func(xid uint32) []byte {
		all := ops
		if inSession {
			slot := xid % uint32(len(p.sequences))
			p.sequences[slot]++
			all = append([]op4{p.sequence(slot, p.sequences[slot], false)}, ops...)
		}
		return compound(xid, minor, all, 0, nil)
	}
}

// begin creates a client, and, from minor version 1 on, a session.
func (p *payer) begin(minor uint32, as string, called netip.AddrPort) error {
	p.minor = minor
	name := fmt.Appendf(nil, "%s, minor version %d", as, minor)
	if minor == 0 {
		return p.introduce(name, called)
	}
	if err := p.start(name, perRound); err != nil {
		return err
	}
	p.sequences = make([]uint32, p.slots)
	p.sequences[0] = 1
	return nil
}

// operations returns calls of each operation of a minor version: in a compound after PUTFH, if alone is false, or
// as the only operation of a compound.
func (p *payer) operations(e Everything, minor uint32, alone bool) (all []Call) {
	for _, op := range e.EveryOperation(minor, p.id) {
		name := fmt.Sprintf("%v of NFSv4.%d", op.number, minor)
		ops := []op4{putFH(e.On(op.number)), op}
		switch {
		case alone:
			name, ops = name+" alone", []op4{op}
		case op.number == wire.OpCopy || op.number == wire.OpClone || op.number == wire.OpLink || op.number == wire.OpRename:
			ops = []op4{putFH(e.File), {number: wire.OpSaveFH}, putFH(e.On(op.number)), op}
		}
		inSession := !alone && minor > 0 && len(p.sequences) > 0
		if !alone && minor > 0 && !inSession {
			ops = append([]op4{{wire.OpSequence, &wire.Sequence4Args{Sequenceid: 1}}}, ops...)
		}
		all = append(all, Call{name, p.compound(minor, inSession, ops...)})
	}
	if minor == 0 && alone || len(p.sequences) > 0 {
		many := []op4{{number: wire.OpPutRootFH}}
		for range 40 {
			many = append(many, op4{wire.OpGetattr, e.nfs4(wire.OpGetattr, 0)})
		}
		name := fmt.Sprintf("PUTROOTFH and many GETATTRs of NFSv4.%d", minor)
		all = append(all, Call{name, p.compound(minor, minor > 0, many...)})
	}
	return all
}
