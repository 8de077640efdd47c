package nlm

import (
	"context"
	"errors"
	"net/netip"
	"time"

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
	// about, unless it is nil, is the lock of which the letter tells: see granter.sends.
	about *awaited
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

// answeredByCall is answered for a call with _MSG: the server sends the result to the host by another call. If the same call
// has come before, the host gets the former result. While the former one runs, the call has no effect.
func answeredByCall[A any](p *Program, c *rpc.Call, decode func(d *xdr.Decoder, args *A),
	run func(r *request, args *A) (wire.Stat4, error), put func(r *request, w *xdr.Writer, stat wire.Stat4)) rpc.Outcome {
	r, args, size, name := p.request(c), new(A), c.Args.Len(), digestOf(c)
	cookie := wire.Object(xdr.NewDecoder(c.Args.Rest()).Opaque(wire.ObjectLen)) // all arguments begin with it
	if decode(&c.Args, args); c.Args.Finish() != nil {
		return rpc.GarbageArgs
	}
	from := c.Conn.Peer.Addr()
	// A host that has shown no handle has locked nothing. The server remembers none of its calls, so that it takes no places
	// of other hosts.
	lasts := wire.Procedure(c.Header.Procedure) != wire.ProcTestMsg && c.Conn.Known()
	stat, again, running := p.messages.begin(from, name, c, lasts)
	switch {
	case running:
		return rpc.Failed // the reply, which is empty, says only that the call has come
	case again:
		r.cookie = cookie
		r.reply(put, stat, size)
		return outcome(stat)
	}
	r.message = name
	stat, err := runs(r, args, run)
	if err != nil {
		return r.wait(err)
	}
	if lasts {
		p.messages.end(from, name, stat)
	}
	r.reply(put, stat, size)
	return outcome(stat)
}

// reply sends the result of a call with _MSG, whose arguments have this size in bytes. It goes to the lock manager at the
// address from which the call came, and to no address that it names.
func (r *request) reply(put func(r *request, w *xdr.Writer, stat wire.Stat4), stat wire.Stat4, size int) {
	w := xdr.NewWriter(make([]byte, 0, wire.TestRes4MaxSize))
	put(r, w, stat)
	to := routeOf(r.call)
	if to.datagrams && w.Len()+emptyReply > size {
		r.unnamed()
		w = xdr.NewWriter(make([]byte, 0, wire.TestRes4MaxSize))
		put(r, w, stat)
	}
	r.program.granter.post(to, letter{procedure: wire.Procedure(r.call.Header.Procedure) + toResult, args: w.Bytes()})
}

// maxLetters is the number of letters that wait until the server knows the port of their host. A host repeats its calls.
const maxLetters = 8

// post sends a letter. If the server knows the host's port, that is a datagram; otherwise it asks the host's rpcbind, and
// connects if the host uses TCP, on a goroutine of the host's address. It does not block.
func (g *granter) post(to route, l letter) {
	if g.dial == nil {
		return
	}
	switch port, known := g.ports.known(to.lockManager()); {
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
	g.letters[at] = append(queue, func() {
		if port, known := g.ports.known(to.lockManager()); known && port == 0 {
			return // the letter before this one has asked for the port
		}
		_ = g.deliver(to, &l)
	})
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

// linger is how long the server keeps a connection on which it has sent a letter, if no reply comes. A host owes none: macOS
// and BSD send none to such calls.
const linger = 250 * time.Millisecond

// deliver sends a letter. It returns errLost, and sends nothing, if the letter tells of a lock that the host has lost.
func (g *granter) deliver(to route, l *letter) error {
	ctx, cancel := context.WithTimeout(g.ctx, hostAnswers)
	defer cancel()
	dial := g.dial(to.local.Addr())
	port, err := g.ports.of(ctx, to.lockManager(), dial)
	if err != nil {
		return err
	}
	lost := func() bool { return l.about != nil && !g.sends(l.about) }
	if to.datagrams {
		if lost() {
			return errLost
		}
		g.datagram(to, port, l)
		return nil
	}
	k, err := dial(ctx, "tcp", netip.AddrPortFrom(to.peer.Addr(), port).String())
	if err != nil {
		g.ports.forget(to.lockManager())
		return err
	}
	defer k.Close()
	if lost() {
		return errLost
	}
	ctx, noReply := context.WithTimeoutCause(ctx, linger, errNoReply)
	defer noReply()
	err = rpc.Do(ctx, k, &rpc.Exchange{
		Program: wire.Program, Version: to.version, Procedure: uint32(l.procedure), Cred: l.cred,
		Args: func(w *xdr.Writer) { w.FixedOpaque(l.args) }, MaxArgs: len(l.args),
	}, nil)
	if errors.Is(err, errNoReply) {
		return nil
	}
	return err
}

var errNoReply = errors.New("nlm: no reply to a call that needs none")

// datagram sends a letter from the socket of the server that the host has called: a host takes no results from elsewhere.
func (g *granter) datagram(to route, port uint16, l *letter) {
	if g.send != nil {
		g.send(to.local, netip.AddrPortFrom(to.peer.Addr(), port), l.message(to.version))
	}
}
