package nlm

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
)

// isMessage reports whether a call is answered by another call (_RES), as macOS and BSD want it, and not by its reply.
func isMessage(p wire.Procedure) bool { return p >= wire.ProcTestMsg && p <= wire.ProcUnlockMsg }

// toResult is the difference between the numbers of a procedure with _RES and of that with _MSG.
const toResult = wire.ProcTestRes - wire.ProcTestMsg

// A route leads to the lock manager of a host.
type route struct {
	// The call that the route goes back to came between these addresses: the host's, and the server's.
	peer, local netip.AddrPort
	// datagrams is true if the host called over UDP.
	datagrams bool
	// stranger is true if the host has not shown that it is a client of this server.
	stranger bool
	version  uint32
}

func routeOf(c *rpc.Call) route {
	return route{c.Conn.Peer, c.Conn.Local, c.Conn.Transport == "udp", !c.Conn.Known(), c.Header.Version}
}

// A letter is a call to a host for which the server awaits no results.
type letter struct {
	procedure wire.Procedure
	cred      rpc.AuthBytes
	args      []byte // encoded
}

// message encodes the letter as a call, for UDP.
func (l *letter) message(version uint32) []byte {
	h := rpc.CallHeader{XID: uint32(cookies.Add(1)), Program: wire.Program, Version: version, Procedure: uint32(l.procedure), Cred: l.cred}
	w := xdr.NewWriter(make([]byte, 0, rpc.MaxCallHeader+len(l.args)))
	rpc.PutCall(w, &h)
	w.FixedOpaque(l.args)
	return w.Bytes()
}

// emptyReply is the size of the reply to a call with _MSG, in bytes.
const emptyReply = 24

// reply sends the results of a call with _MSG. They go to the lock manager at the address from which the call came, and to
// no address that it names.
func (r *request) reply(put func(r *request, w *xdr.Writer, stat wire.Stat4), stat wire.Stat4) {
	w := xdr.NewWriter(make([]byte, 0, wire.TestRes4MaxSize))
	put(r, w, stat)
	// A datagram may name another machine than the one that sent it. So that nobody makes the server send more than was
	// sent to it, the holder's name is left out, as it is for holders that are not hosts.
	if to := routeOf(r.call); to.datagrams && w.Len()+emptyReply > r.size {
		r.holder.SVID, r.holder.OH = 0, nil
		w = xdr.NewWriter(make([]byte, 0, wire.TestRes4MaxSize))
		put(r, w, stat)
	}
	r.program.granter.post(routeOf(r.call), letter{wire.Procedure(r.call.Header.Procedure) + toResult, rpc.AuthBytes{}, w.Bytes()})
}

// maxLetters is the number of letters that wait until the server knows the port of their host. A host repeats its calls.
const maxLetters = 8

// post sends a letter. If the server knows the host's port, that is a datagram; otherwise it asks the host's rpcbind, and
// connects if the host uses TCP, on a goroutine of the host's address. It does not block.
func (g *granter) post(to route, l letter) {
	if g.dial == nil {
		return
	}
	switch port, known := g.ports.known(to.manager()); {
	case known && port == 0:
		return
	case known && to.datagrams:
		g.datagram(to, port, &l)
		return
	}
	places := granters
	if to.stranger {
		places /= 2 // so that strangers leave some to clients
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	at := to.peer.Addr()
	queue, busy := g.letters[at]
	if g.ended || len(queue) >= maxLetters || !busy && len(g.letters) >= places {
		return
	}
	g.letters[at] = append(queue, func() { _ = g.deliver(to, &l) })
	if !busy {
		g.calling.Add(1)
		go g.carry(at)
	}
}

// carry delivers the letters to an address, one after the other.
func (g *granter) carry(at netip.Addr) {
	defer g.calling.Done()
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.letters[at]) > 0 {
		next := g.letters[at][0]
		g.mu.Unlock()
		next()
		g.mu.Lock()
		g.letters[at] = g.letters[at][1:] // not before, so that maxLetters counts it
	}
	delete(g.letters, at)
}

// deliver sends a letter, and over TCP waits for its reply, which is empty.
func (g *granter) deliver(to route, l *letter) error {
	ctx, cancel := context.WithTimeout(g.ctx, hostAnswers)
	defer cancel()
	dial := g.dial(to.local.Addr())
	port, err := g.ports.of(ctx, to.manager(), dial)
	if err != nil {
		return err
	}
	if to.datagrams {
		g.datagram(to, port, l)
		return nil
	}
	k, err := dial(ctx, "tcp", netip.AddrPortFrom(to.peer.Addr(), port).String())
	if err != nil {
		g.ports.forget(to.manager())
		return err
	}
	defer k.Close()
	return rpc.Do(ctx, k, &rpc.Exchange{
		Program: wire.Program, Version: to.version, Procedure: uint32(l.procedure), Cred: l.cred,
		Args: func(w *xdr.Writer) { w.FixedOpaque(l.args) }, MaxArgs: len(l.args),
	}, nil)
}

// datagram sends a letter from the socket of the server that the host has called: a host takes no results from elsewhere.
func (g *granter) datagram(to route, port uint16, l *letter) {
	if g.send != nil {
		g.send(to.local, netip.AddrPortFrom(to.peer.Addr(), port), l.message(to.version))
	}
}

// Answers to GRANTED_MSG.

// An answerKey names a GRANTED_MSG: its cookie, and the address of the host that was called.
type answerKey struct {
	from   netip.Addr
	cookie string
}

// answers are the GRANTED_MSGs that wait for their GRANTED_RES.
type answers struct {
	mu      sync.Mutex
	awaited map[answerKey]chan wire.Stat4
}

// expect returns a channel that gets the status of the GRANTED_RES, and a function that ends the waiting.
func (a *answers) expect(k answerKey) (<-chan wire.Stat4, func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.awaited == nil {
		a.awaited = make(map[answerKey]chan wire.Stat4)
	}
	c := make(chan wire.Stat4, 1)
	a.awaited[k] = c
	return c, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.awaited, k)
	}
}

// grantedRes is GRANTED_RES (C702 §9): a host answers GRANTED_MSG. It counts only from the host's address, with the cookie
// of the call, which nobody can guess.
func (p *Program) grantedRes(c *rpc.Call) rpc.Outcome {
	var res wire.Res4
	if res.Decode(&c.Args); c.Args.Finish() != nil {
		return rpc.GarbageArgs
	}
	a := &p.granter.answers
	a.mu.Lock()
	defer a.mu.Unlock()
	if to := a.awaited[answerKey{c.Conn.Peer.Addr(), string(res.Cookie)}]; to != nil {
		select {
		case to <- res.Stat:
		default: // it has come before
		}
	}
	return rpc.Done
}

// Calls that come again.

const (
	// lastMessages is the number of calls with _MSG of an address whose results the server remembers.
	lastMessages = 8
	// maxCorrespondents is the largest number of addresses for which it does so.
	maxCorrespondents = 4096
)

// correspondence has the last calls with _MSG of each address, and their results. The replies of such calls are empty, so
// rpc's memory of replies does not help a host that repeats one: a LOCK_MSG that comes again behind its UNLOCK_MSG must
// not lock again.
type correspondence struct {
	mu   sync.Mutex
	last map[netip.Addr]*[lastMessages]answered4
	next uint64
}

type answered4 struct {
	of     [sha256.Size]byte
	stat   wire.Stat4
	number uint64 // counts up; 0: there is none
}

// digest names a call: the procedure, and all arguments, of which the cookie tells it from other calls.
func digest(c *rpc.Call) (of [sha256.Size]byte) {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint32(nil, c.Header.Version))
	h.Write(binary.BigEndian.AppendUint32(nil, c.Header.Procedure))
	h.Write(c.Args.Rest())
	h.Sum(of[:0])
	return of
}

// find returns the status of a call that has come before from this address.
func (m *correspondence) find(from netip.Addr, of [sha256.Size]byte) (wire.Stat4, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if all := m.last[from]; all != nil {
		for i := range all {
			if a := &all[i]; a.number > 0 && a.of == of {
				return a.stat, true
			}
		}
	}
	return 0, false
}

// add remembers a status that is final. BLOCKED and DENIED_GRACE_PERIOD are not: the host asks again.
func (m *correspondence) add(from netip.Addr, of [sha256.Size]byte, stat wire.Stat4) {
	if stat == wire.Blocked || stat == wire.DeniedGracePeriod {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.last[from]
	if all == nil {
		if m.last == nil || len(m.last) >= maxCorrespondents {
			m.last = make(map[netip.Addr]*[lastMessages]answered4)
		}
		all = new([lastMessages]answered4)
		m.last[from] = all
	}
	oldest := &all[0]
	for i := range all {
		if all[i].number < oldest.number {
			oldest = &all[i]
		}
	}
	m.next++
	*oldest = answered4{of, stat, m.next}
}
