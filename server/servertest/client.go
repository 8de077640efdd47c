// Package servertest helps to test a whole server. It has an NFSv3 client for both transports, a
// daemon in its own process, and a proxy that behaves like a peer that stops. It shares no code
// of the server's logic.
//
// The client is based on package client. It adds features for tests: unprivileged ports,
// a credential that a test may change between calls, and calls that run in the
// background. It never retries a call and caches nothing.
package servertest

import (
	"context"
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// Types of package client that appear in results and errors.
type (
	Handle      = client.Handle
	StatusError = client.StatusError
	MountError  = client.MountError
)

// A Client makes MOUNT and NFSv3 calls on one connection. Its methods may be
// called from any goroutine.
type Client struct {
	Caller rpc.Caller
	// Cred is the credential of the calls. By default it is user 0 and group 0.
	Cred  rpc.AuthBytes
	close func()
}

// DialTCP connects over TCP, from any port.
func DialTCP(ctx context.Context, addr netip.AddrPort) (*Client, error) {
	k, err := tcp.Dial(ctx, addr.String(), tcp.DialConfig{})
	if err != nil {
		return nil, err
	}
	return &Client{Caller: k, Cred: As(0, 0), close: k.Close}, nil
}

// DialRDMA connects by the software RNIC.
func DialRDMA(ctx context.Context, addr netip.AddrPort) (*Client, error) {
	return dialRDMA(ctx, addr, rdma.DialConfig{})
}

// DialRDMA2 is like DialRDMA, with version 2 of RPC-over-RDMA. It fails if the server does not speak it.
func DialRDMA2(ctx context.Context, addr netip.AddrPort) (*Client, error) {
	return dialRDMA(ctx, addr, rdma.DialConfig{Version2: true, OnlyVersion2: true})
}

func dialRDMA(ctx context.Context, addr netip.AddrPort, config rdma.DialConfig) (*Client, error) {
	device, err := iwarp.New(iwarp.Config{})
	if err != nil {
		return nil, err
	}
	k, err := rdma.Dial(ctx, device, addr, config)
	if err != nil {
		return nil, err
	}
	return &Client{Caller: k, Cred: As(0, 0), close: func() { k.Close() }}, nil
}

// Close ends the connection.
func (c *Client) Close() { c.close() }

// As returns the AUTH_SYS credential of a user and a group.
func As(uid, gid uint32) rpc.AuthBytes {
	cred, err := rpc.AuthSysCred(0, "servertest", uid, gid, nil)
	if err != nil {
		panic(err)
	}
	return cred
}

// wordsRoom is the largest size of a call's arguments without payload, in bytes.
const wordsRoom = 4096

// An Encoder holds the arguments of a procedure.
type Encoder interface{ Encode(w *xdr.Writer) }

// Start begins an NFSv3 call. The payload of the reply goes to sink, if sink is not nil. The
// transport calls done when the call has ended; done may decode x.Results.
func (c *Client) Start(p wire.Procedure, args Encoder, sink []byte, done func(x *rpc.Exchange)) *rpc.Exchange {
	x := c.exchange(p, args)
	x.Done = done
	if sink != nil {
		x.Sinks = [][]byte{sink}
	}
	c.Caller.Start(x)
	return x
}

func (c *Client) exchange(p wire.Procedure, args Encoder) *rpc.Exchange {
	x := &rpc.Exchange{
		Program: wire.Program, Version: wire.Version, Procedure: uint32(p),
		Cred: c.Cred, Binding: &nfs.Binding3.Procedures[p], MaxArgs: wordsRoom,
	}
	if args != nil {
		x.Args = args.Encode
	}
	return x
}

// Status makes a call whose results begin with a status, and ignores the rest of the
// results. A status other than NFS3_OK is a *StatusError.
func (c *Client) Status(ctx context.Context, p wire.Procedure, args Encoder) error {
	return rpc.Do(ctx, c.Caller, c.exchange(p, args), func(d *xdr.Decoder) error {
		var status wire.NFSStat3
		if status.Decode(d); d.Err() == nil && status != wire.NFS3OK {
			return &StatusError{Procedure: p, Status: status}
		}
		return d.Err()
	})
}

// Null calls the procedure NULL.
func (c *Client) Null(ctx context.Context) error {
	return rpc.Do(ctx, c.Caller, c.exchange(wire.ProcNull, nil), nil)
}

func (c *Client) nfs() client.NFS3 { return client.NFS3{Caller: c.Caller, Cred: c.Cred} }

// Mount mounts a path with MOUNT's procedure MNT, and returns its handle.
func (c *Client) Mount(ctx context.Context, path string) (Handle, error) {
	h, _, err := client.Mount3{Caller: c.Caller, Cred: c.Cred}.Mount(ctx, path)
	return h, err
}

// GetAttr returns a file's attributes.
func (c *Client) GetAttr(ctx context.Context, h Handle) (wire.Fattr3, error) {
	return c.nfs().Getattr(ctx, h)
}

// Lookup finds a name in a directory.
func (c *Client) Lookup(ctx context.Context, dir Handle, name string) (Handle, error) {
	h, _, err := c.nfs().Lookup(ctx, dir, name)
	return h, err
}

// Create makes a file, or opens the file that has this name.
func (c *Client) Create(ctx context.Context, dir Handle, name string, mode uint32) (Handle, error) {
	h, _, err := c.nfs().Create(ctx, dir, name, wire.CreateHow3{
		Mode: wire.Unchecked, ObjAttributes: wire.Sattr3{Mode: wire.SetMode3{SetIt: true, Mode: mode}},
	})
	return h, err
}

// Write writes data and returns the number of bytes written.
func (c *Client) Write(ctx context.Context, h Handle, offset uint64, data []byte, stable wire.StableHow) (int, error) {
	w, err := c.nfs().Write(ctx, h, offset, data, stable)
	return w.Count, err
}

// Read reads into p and returns the number of bytes read.
func (c *Client) Read(ctx context.Context, h Handle, offset uint64, p []byte) (int, error) {
	n, _, err := c.nfs().Read(ctx, h, offset, p)
	return n, err
}

// Commit puts the file's written data on stable storage.
func (c *Client) Commit(ctx context.Context, h Handle) error {
	_, err := c.nfs().Commit(ctx, h, 0, 0)
	return err
}
