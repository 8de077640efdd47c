package nlm

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpcbind"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
)

const (
	// hostAnswers is the longest time for a call to a host, with the question to its rpcbind before it.
	hostAnswers = 5 * time.Second
	// portLasts is how long the server remembers the port of a host's lock manager.
	portLasts = 10 * time.Minute
	// askAgain is the time after which a call with _MSG makes the server ask an rpcbind again that did not tell the port.
	askAgain = 5 * time.Second
	// maxPorts is the largest number of ports that it remembers.
	maxPorts = 4096
)

// cookies numbers the calls of this process to hosts.
var cookies atomic.Uint64

// tell calls GRANTED (RFC 1813 §6.2) at the host, from the address that the host has called. The host's address is that
// from which its LOCK came, and never one that a message names. Its rpcbind knows the port. A host that has sent LOCK_MSG
// gets GRANTED_MSG, and answers it by GRANTED_RES.
func (g *granter) tell(w *awaited) (stat wire.Stat4, err error) {
	if !g.call() {
		return wire.Failed, context.Canceled
	}
	defer g.calling.Done()
	cookie := g.cookieOf(w)
	if w.message {
		return g.tellByMessage(w, cookie)
	}
	to := w.to
	to.datagrams = false // an ordinary call, for which a connection is better
	ctx, cancel := context.WithTimeout(g.ctx, hostAnswers)
	defer cancel()
	dial := g.dial(to.local.Addr())
	port, err := g.ports.of(ctx, to.lockManager(), dial)
	if err != nil {
		return wire.Failed, err
	}
	k, err := dial(ctx, "tcp", netip.AddrPortFrom(to.peer.Addr(), port).String())
	if err != nil {
		g.ports.forget(to.lockManager())
		return wire.Failed, err
	}
	defer k.Close()
	if !g.sends(w) {
		return wire.Failed, errLost
	}
	var res wire.Res4
	err = rpc.Do(ctx, k, &rpc.Exchange{
		Program: wire.Program, Version: to.version, Procedure: uint32(wire.ProcGranted), Cred: g.cred,
		Args: func(x *xdr.Writer) { w.granted(x, cookie) }, MaxArgs: wire.TestArgs4MaxSize, MaxResults: wire.Res4MaxSize,
	}, func(d *xdr.Decoder) error {
		res.Decode(d)
		return d.Finish()
	})
	if err != nil {
		g.ports.forget(to.lockManager())
		return wire.Failed, err
	}
	if stat = res.Stat; !bytes.Equal(res.Cookie, cookie) {
		stat = wire.Failed
	}
	return stat, nil
}

// tellByMessage sends GRANTED_MSG, and waits for GRANTED_RES.
func (g *granter) tellByMessage(w *awaited, cookie []byte) (wire.Stat4, error) {
	answer := g.answers.expect(w)
	defer g.expectNoMore(w)
	args := xdr.NewWriter(make([]byte, 0, wire.TestArgs4MaxSize))
	w.granted(args, cookie)
	if err := g.deliver(w.to, &letter{procedure: wire.ProcGrantedMsg, cred: g.cred, args: args.Bytes(), about: w}); err != nil {
		return wire.Failed, err
	}
	select {
	case stat := <-answer:
		return stat, nil
	case <-time.After(hostAnswers):
		g.ports.forget(w.to.lockManager())
		return wire.Failed, context.DeadlineExceeded
	case <-g.ctx.Done():
		return wire.Failed, g.ctx.Err()
	}
}

// cookieOf returns the cookie of all calls that tell the host of a lock. It is random, so that no other machine can forge
// the answer (grantedRes).
func (g *granter) cookieOf(w *awaited) []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.cookie == nil {
		w.cookie = make([]byte, 16)
		_, _ = rand.Read(w.cookie) // it never fails
	}
	return w.cookie
}

// errLost means that a host is not told of a lock, because a call of its owner has settled the lock meanwhile, or it has ended.
var errLost = errors.New("nlm: the host is not told of a lock that it does not have any more")

// sends counts a call that the host may hear. It returns false if the host must not hear the call, because there is nothing
// to tell any more. The caller has waited for the host's rpcbind, and sends the call at once: if the owner waits for the same
// lock once more, it takes an old word for a new one.
func (g *granter) sends(w *awaited) bool {
	has := g.has(w)
	g.mu.Lock()
	defer g.mu.Unlock()
	if !has || !slices.Contains(g.untold[w.host], w) {
		return false
	}
	w.sent++
	return true
}

// has reports whether the owner still has a lock that was taken for it. The lock may have been released, or its host may have
// restarted. The caller does not hold g.mu.
func (g *granter) has(w *awaited) bool {
	r := w.what()
	return g.program.state.HostHolds(&r)
}

// granted encodes the arguments of GRANTED, in the version of the LOCK.
func (w *awaited) granted(x *xdr.Writer, cookie []byte) {
	if w.to.version != wire.Version {
		(&wire.TestArgs3{Cookie: cookie, Exclusive: w.exclusive, Lock: narrowed(&w.lock)}).Encode(x)
		return
	}
	(&wire.TestArgs4{Cookie: cookie, Exclusive: w.exclusive, Lock: w.lock}).Encode(x)
}

// call counts a call to a host, unless the Program is closed.
func (g *granter) call() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.ended {
		g.calling.Add(1)
	}
	return !g.ended
}

// A lockManager is the program at a host, in one version, over TCP or UDP.
type lockManager struct {
	at      netip.Addr
	netid   string
	version uint32
}

func (r *route) lockManager() lockManager {
	transport := "tcp"
	if r.datagrams {
		transport = "udp"
	}
	at := r.peer.Addr()
	return lockManager{at, rpcbind.Netid(transport, at), r.version}
}

// ports remembers the ports of hosts' lock managers.
type ports struct {
	mu  sync.Mutex
	all map[lockManager]port
}

// A port of a lock manager is known until a time. It is 0 if the host's rpcbind did not tell it.
type port struct {
	number uint16
	until  time.Time
}

// known returns what the server remembers of a lock manager: its port or, for a short time, that there is none (0).
func (p *ports) known(m lockManager) (number uint16, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	is, ok := p.all[m]
	return is.number, ok && time.Now().Before(is.until)
}

// of returns the port of a lock manager. It asks the rpcbind there, if it does not know the port.
func (p *ports) of(ctx context.Context, m lockManager, dial rpc.Dialer) (uint16, error) {
	if number, known := p.known(m); known && number != 0 {
		return number, nil
	}
	number, err := portOf(ctx, m.at, wire.Program, m.version, m.netid, dial)
	is := port{number, time.Now().Add(portLasts)}
	if err != nil {
		is = port{until: time.Now().Add(askAgain)}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		p.all = make(map[lockManager]port)
	}
	makeRoom(p.all, maxPorts)
	p.all[m] = is
	return number, err
}

func (p *ports) forget(m lockManager) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, m)
}

// portOf asks the rpcbind at an address for the port of a program there.
func portOf(ctx context.Context, at netip.Addr, program, version uint32, netid string, dial rpc.Dialer) (uint16, error) {
	c := rpcbind.Client{Dial: dial, Network: "tcp", Address: netip.AddrPortFrom(at, rpcbind.Port).String()}
	a, err := c.GetAddr(ctx, program, version, netid)
	return a.Port(), err
}
