package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/providers"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
)

// MaxTransfer is the largest READ and the largest directory listing whose reply a Conn
// accepts, in bytes.
const MaxTransfer = 4 << 20

// maxReply is the longest reply that a Conn accepts over TCP, in bytes: the data of a transfer
// and the rest of its reply.
const maxReply = MaxTransfer + 64<<10

// A Conn is a connection to a server. Its methods may be called from any goroutine; many calls
// may be in progress.
type Conn struct {
	target Target
	peer   netip.AddrPort
	// bare makes calls without Security; caller makes them under the Target's Security, if
	// it has one.
	bare, caller rpc.Caller
	secured      *secured // nil without Security
	close        func()
	sizes        Sizes // for NFS version 3
	// number counts the connections of a session, and answered the replies to requests on this one. The
	// session's lock guards them.
	number, answered uint64

	tcp  *tcp.Conn
	rdma *rdma.Client
}

// Dial connects to t. ctx limits how long connecting may take; the connection may outlive it. If
// the host has several addresses, Dial tries each, in order.
func Dial(ctx context.Context, t Target) (*Conn, error) {
	back, err := t.Calls, error(nil)
	if back == nil {
		back, err = unserved()
	}
	if err != nil {
		return nil, err
	}
	addrs, err := resolve(ctx, t.Host)
	if err != nil {
		return nil, err
	}
	var all []error
	for _, a := range addrs {
		c := &Conn{target: t, peer: netip.AddrPortFrom(a, uint16(t.port()))}
		if t.Transport == RDMA {
			err = c.dialRDMA(ctx, back)
		} else {
			err = c.dialTCP(ctx, back)
		}
		if err == nil && t.Security != nil {
			if err = c.secure(ctx); err != nil {
				c.close()
			}
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

func (c *Conn) dialTCP(ctx context.Context, back *Calls) error {
	config := tcp.DialConfig{Dial: dialReserved, MaxRecord: maxReply, RPC: back.RPC, Pool: back.Pool}
	k, err := tcp.Dial(ctx, c.peer.String(), config)
	if err != nil {
		return err
	}
	c.tcp, c.bare, c.caller, c.close = k, k, k, k.Close
	return nil
}

func (c *Conn) dialRDMA(ctx context.Context, back *Calls) error {
	p := c.target.Provider
	if p == nil {
		own, err := providers.Open(providers.IWARP, providers.Config{})
		if err != nil {
			return err
		}
		p = own
	}
	config := rdma.DialConfig{
		Credits:            c.target.Depth,
		InlineSend:         c.target.Inline,
		InlineReceive:      c.target.Inline,
		RemoteInvalidation: true,
		Reconnect:          c.target.Reconnect,
		Callbacks:          back.RPC,
	}
	switch c.target.RDMAVersion {
	case "", RDMAVersion1:
	case RDMAVersion2:
		config.Version2, config.OnlyVersion2 = true, true
	case RDMANewest:
		config.Version2 = true
	default:
		_, err := ParseRDMAVersion(string(c.target.RDMAVersion))
		return err
	}
	k, err := rdma.Dial(ctx, p, c.peer, config)
	if errors.Is(err, rdma.ErrVersion2) {
		return fmt.Errorf("%s: %w: use version 1, or newest", c.peer, err)
	}
	if err != nil {
		return err
	}
	c.rdma, c.bare, c.caller, c.close = k, k, k, func() { k.Close() }
	return nil
}

// Info describes the RPC-over-RDMA connection. ok is false over TCP, and while a lost
// connection is being replaced.
func (c *Conn) Info() (i rdma.Info, ok bool) {
	if c.rdma == nil {
		return rdma.Info{}, false
	}
	return c.rdma.Info()
}

// Peer returns the server's address.
func (c *Conn) Peer() netip.AddrPort { return c.peer }

// Target returns the Target that Dial got.
func (c *Conn) Target() Target { return c.target }

// Caller returns a Caller for calls on c. Each Exchange carries its own credential; Target.Cred
// is not added. If Target.Security is set, it protects the calls instead.
func (c *Conn) Caller() rpc.Caller { return c.caller }

// Bare returns a Caller without Target.Security, for programs that do not support RPCSEC_GSS,
// such as MOUNT.
func (c *Conn) Bare() rpc.Caller { return c.bare }

// NFS3 returns an NFS3 that makes its calls on c, with the Target's credential.
func (c *Conn) NFS3() NFS3 { return NFS3{Caller: c.caller, Cred: c.target.Cred, Sizes: &c.sizes} }

// Mount3 returns a Mount3 that makes its calls on c, with the Target's credential. Like other
// clients, it does not use the Target's Security, because few servers support that for MOUNT. c
// must lead to the server's MOUNT service: see DialMount.
func (c *Conn) Mount3() Mount3 { return Mount3{Caller: c.bare, Cred: c.target.Cred} }

// Close ends the connection and all its calls, and returns when each of them is
// done. It must not be called from an Exchange's Done.
func (c *Conn) Close() {
	if c.secured != nil {
		c.secured.client.Close()
	}
	c.close()
}

// Call makes one call with the Target's credential and waits for its end. decode, unless
// nil, reads the results while they are valid. Call also returns decode's error.
func (c *Conn) Call(ctx context.Context, x *rpc.Exchange, decode func(d *xdr.Decoder) error) error {
	x.Cred = c.target.Cred
	return rpc.Do(ctx, c.caller, x, decode)
}

// Null calls procedure 0 of a program, which does nothing.
func (c *Conn) Null(ctx context.Context, program, version uint32) error {
	return c.Call(ctx, &rpc.Exchange{Program: program, Version: version}, nil)
}

// Lost reports whether the connection has ended and will not be replaced.
func (c *Conn) Lost() bool {
	if c.tcp == nil {
		_, connected := c.rdma.Info()
		return !connected && !c.target.Reconnect
	}
	select {
	case <-c.tcp.Done():
		return true
	default:
		return false
	}
}

// lowestReserved and highestReserved are the range of client ports below 1024 that mount.nfs uses,
// too. Lower ports belong to services.
const (
	lowestReserved  = 665
	highestReserved = 1023
)

// reservedTries is the number of reserved ports that are tried before an ordinary port is used.
const reservedTries = 64

// dialReserved connects from a port that only a privileged process can use, because servers require
// such a port by default. If this process is not privileged, or such ports are in use, it connects
// from any port.
func dialReserved(ctx context.Context, network, address string) (net.Conn, error) {
	first := rand.IntN(highestReserved - lowestReserved + 1)
	for i := range reservedTries {
		port := lowestReserved + (first+i)%(highestReserved-lowestReserved+1)
		d := net.Dialer{LocalAddr: &net.TCPAddr{Port: port}}
		c, err := d.DialContext(ctx, network, address)
		switch {
		case err == nil:
			return c, nil
		case errors.Is(err, syscall.EADDRINUSE), errors.Is(err, syscall.EADDRNOTAVAIL):
			continue
		case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
			return new(net.Dialer).DialContext(ctx, network, address)
		}
		return nil, err
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}
