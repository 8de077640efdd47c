package nlm

import (
	"bytes"
	"context"
	"encoding/binary"
	"net/netip"
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
	// maxPorts is the largest number of ports that it remembers.
	maxPorts = 4096
)

// cookies numbers the GRANTED calls of this process.
var cookies atomic.Uint64

// tell calls GRANTED (RFC 1813 §6.2) at the host, from the address that the host has called. The host's address is that
// from which its LOCK came, and never one that a message names. Its rpcbind knows the port.
func (g *granter) tell(w *awaited) (stat wire.Stat4, err error) {
	if !g.call() {
		return wire.Failed, context.Canceled
	}
	defer g.calling.Done()
	ctx, cancel := context.WithTimeout(g.ctx, hostAnswers)
	defer cancel()
	dial := g.dial(w.local)
	port, err := g.ports.of(ctx, w.peer, dial)
	if err != nil {
		return wire.Failed, err
	}
	k, err := dial(ctx, "tcp", netip.AddrPortFrom(w.peer, port).String())
	if err != nil {
		g.ports.forget(w.peer)
		return wire.Failed, err
	}
	defer k.Close()
	cookie := binary.BigEndian.AppendUint64(nil, cookies.Add(1))
	args := wire.TestArgs4{Cookie: cookie, Exclusive: w.exclusive, Lock: w.lock}
	var res wire.Res4
	err = rpc.Do(ctx, k, &rpc.Exchange{
		Program: wire.Program, Version: wire.Version, Procedure: uint32(wire.ProcGranted), Cred: g.cred,
		Args: args.Encode, MaxArgs: wire.TestArgs4MaxSize, MaxResults: wire.Res4MaxSize,
	}, func(d *xdr.Decoder) error {
		res.Decode(d)
		return d.Finish()
	})
	if err != nil {
		g.ports.forget(w.peer)
		return wire.Failed, err
	}
	if stat = res.Stat; !bytes.Equal(res.Cookie, cookie) {
		stat = wire.Failed
	}
	return stat, nil
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

// ports remembers the ports of hosts' lock managers.
type ports struct {
	mu    sync.Mutex
	known map[netip.Addr]port
}

type port struct {
	number uint16
	until  time.Time
}

// of returns the port of the lock manager at an address. It asks the rpcbind there, if it does not know the port.
func (p *ports) of(ctx context.Context, at netip.Addr, dial rpc.Dialer) (uint16, error) {
	p.mu.Lock()
	known, ok := p.known[at]
	p.mu.Unlock()
	if ok && time.Now().Before(known.until) {
		return known.number, nil
	}
	number, err := portOf(ctx, at, wire.Program, wire.Version, dial)
	if err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil || len(p.known) >= maxPorts {
		p.known = make(map[netip.Addr]port)
	}
	p.known[at] = port{number, time.Now().Add(portLasts)}
	return number, nil
}

func (p *ports) forget(at netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, at)
}

// portOf asks the rpcbind at an address for the TCP port of a program there.
func portOf(ctx context.Context, at netip.Addr, program, version uint32, dial rpc.Dialer) (uint16, error) {
	c := rpcbind.Client{Dial: dial, Network: "tcp", Address: netip.AddrPortFrom(at, rpcbind.Port).String()}
	a, err := c.GetAddr(ctx, program, version, rpcbind.Netid("tcp", at))
	return a.Port(), err
}
