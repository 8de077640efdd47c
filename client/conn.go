package client

import (
	"context"
	"errors"
	"net/netip"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
)

// maxReply is the longest reply that is taken, in bytes: a transfer of 4 MiB,
// which no server of today exceeds, and what goes with it.
const maxReply = 4<<20 + 64<<10

// A Conn is a connection to a server. Its methods may be called from any
// goroutine; many calls may be under way.
type Conn struct {
	target Target
	peer   netip.AddrPort
	caller rpc.Caller
	close  func()

	tcp  *tcp.Conn
	rdma *rdma.Client
	// setup is what a software RNIC of our own agreed on last.
	mu    sync.Mutex
	setup *iwarp.Setup
}

// Dial connects. ctx bounds that, not the connection. A host with several
// addresses is tried at each, in order.
func Dial(ctx context.Context, t Target) (*Conn, error) {
	addrs, err := resolve(ctx, t.Host)
	if err != nil {
		return nil, err
	}
	var all []error
	for _, a := range addrs {
		c := &Conn{target: t, peer: netip.AddrPortFrom(a, uint16(t.port()))}
		if t.Transport == RDMA {
			err = c.dialRDMA(ctx)
		} else {
			err = c.dialTCP(ctx)
		}
		if err == nil {
			return c, nil
		}
		all = append(all, err)
	}
	if len(all) == 1 {
		return nil, all[0]
	}
	return nil, errors.Join(all...)
}

func (c *Conn) dialTCP(ctx context.Context) error {
	k, err := tcp.Dial(ctx, c.peer.String(), tcp.DialConfig{Dial: dialReserved, MaxRecord: maxReply})
	if err != nil {
		return err
	}
	c.tcp, c.caller, c.close = k, k, k.Close
	return nil
}

func (c *Conn) dialRDMA(ctx context.Context) error {
	p := c.target.Provider
	if p == nil {
		config := iwarp.Config{Event: c.event}
		if c.target.NoCRC {
			config.CRC = iwarp.CRCOff
		}
		device, err := iwarp.New(config)
		if err != nil {
			return err
		}
		p = device
	}
	k, err := rdma.Dial(ctx, p, c.peer, rdma.DialConfig{
		Credits:            c.target.Depth,
		InlineSend:         c.target.Inline,
		InlineReceive:      c.target.Inline,
		RemoteInvalidation: true,
		Reconnect:          c.target.Reconnect,
	})
	if err != nil {
		return err
	}
	c.rdma, c.caller, c.close = k, k, func() { k.Close() }
	return nil
}

func (c *Conn) event(e iwarp.Event) {
	if e.Kind == iwarp.EventConnected {
		c.mu.Lock()
		c.setup = &e.Setup
		c.mu.Unlock()
	}
}

// Setup is what was agreed on with the peer's RNIC, where the connection is one
// of a software RNIC of its own.
func (c *Conn) Setup() (s iwarp.Setup, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.setup == nil {
		return iwarp.Setup{}, false
	}
	return *c.setup, true
}

// Info is what is known of an RPC-over-RDMA connection; ok is false for others.
func (c *Conn) Info() (i rdma.Info, ok bool) {
	if c.rdma == nil {
		return rdma.Info{}, false
	}
	return c.rdma.Info()
}

// Peer is the server's address.
func (c *Conn) Peer() netip.AddrPort { return c.peer }

// Target is what Dial was told.
func (c *Conn) Target() Target { return c.target }

// Caller makes calls without waiting for them. Exchanges carry their own
// credentials: see Target.Cred.
func (c *Conn) Caller() rpc.Caller { return c.caller }

// Close ends the connection and all its calls. It must not be called from an
// Exchange's Done.
func (c *Conn) Close() { c.close() }

// Call makes one call and waits for it; decode reads the results while they are
// valid. The Exchange's credential is the Target's.
func (c *Conn) Call(ctx context.Context, x *rpc.Exchange, decode func(d *xdr.Decoder) error) error {
	x.Cred = c.target.Cred
	return rpc.Do(ctx, c.caller, x, decode)
}

// Null calls a program's procedure 0, which does nothing.
func (c *Conn) Null(ctx context.Context, program, version uint32) error {
	return c.Call(ctx, &rpc.Exchange{Program: program, Version: version}, nil)
}

// lost says that a TCP connection has ended.
func (c *Conn) lost() bool {
	select {
	case <-c.tcp.Done():
		return true
	default:
		return false
	}
}
