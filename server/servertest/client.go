// Package servertest is for tests of whole servers: a plain NFSv3 client over
// either transport, a daemon as a process of its own, and peers that behave
// badly. It knows the protocol, but shares no logic with the server.
//
// It is no client for work: it retries nothing and keeps nothing.
package servertest

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// A Handle is a file handle as the server gave it out.
type Handle []byte

// A StatusError is a NFSv3 status that is not NFS3_OK.
type StatusError struct {
	Procedure wire.Procedure
	Status    wire.NFSStat3
}

func (e *StatusError) Error() string { return fmt.Sprintf("%v: %v", e.Procedure, e.Status) }

// A MountError is a MOUNT status that is not MNT3_OK.
type MountError struct{ Status mount3wire.Stat3 }

func (e *MountError) Error() string { return fmt.Sprintf("MNT: %v", e.Status) }

// A Client makes MOUNT and NFSv3 calls on one connection. Its methods may be
// called from any goroutine.
type Client struct {
	Caller rpc.Caller
	// Cred is what calls carry: user and group 0 unless replaced.
	Cred  rpc.AuthBytes
	close func()
}

// DialTCP connects over TCP.
func DialTCP(ctx context.Context, addr netip.AddrPort) (*Client, error) {
	k, err := tcp.Dial(ctx, addr.String(), tcp.DialConfig{})
	if err != nil {
		return nil, err
	}
	return &Client{Caller: k, Cred: As(0, 0), close: k.Close}, nil
}

// DialRDMA connects by the software RNIC.
func DialRDMA(ctx context.Context, addr netip.AddrPort) (*Client, error) {
	device, err := iwarp.New(iwarp.Config{})
	if err != nil {
		return nil, err
	}
	k, err := rdma.Dial(ctx, device, addr, rdma.DialConfig{})
	if err != nil {
		return nil, err
	}
	return &Client{Caller: k, Cred: As(0, 0), close: func() { k.Close() }}, nil
}

// Close ends the connection.
func (c *Client) Close() { c.close() }

// As is the AUTH_SYS credential of a user and its group.
func As(uid, gid uint32) rpc.AuthBytes {
	cred, err := rpc.AuthSysCred(0, "servertest", uid, gid, nil)
	if err != nil {
		panic(err)
	}
	return cred
}

// wordsRoom is more than the arguments of any call here take, without payload.
const wordsRoom = 4096

// An Encoder is the arguments of a procedure.
type Encoder interface{ Encode(w *xdr.Writer) }

// Start begins a NFSv3 call; done gets the end, and decodes x.Results then.
func (c *Client) Start(p wire.Procedure, args Encoder, sink []byte, done func(x *rpc.Exchange)) *rpc.Exchange {
	x := &rpc.Exchange{
		Program: wire.Program, Version: wire.Version, Procedure: uint32(p),
		Cred: c.Cred, Binding: &nfs.Binding3.Procedures[p], MaxArgs: wordsRoom, Done: done,
	}
	if args != nil {
		x.Args = args.Encode
	}
	if sink != nil {
		x.Sinks = [][]byte{sink}
	}
	c.Caller.Start(x)
	return x
}

// call makes one call. decode reads the results and says with which status it
// ended.
func (c *Client) call(ctx context.Context, p wire.Procedure, args Encoder, sink []byte, decode func(d *xdr.Decoder) wire.NFSStat3) error {
	done := make(chan error, 1)
	x := c.Start(p, args, sink, func(x *rpc.Exchange) {
		if x.Err != nil || decode == nil {
			done <- x.Err
			return
		}
		status := decode(&x.Results)
		if err := x.Results.Finish(); err != nil {
			done <- fmt.Errorf("%v: results do not decode: %w", p, err)
		} else if status != wire.NFS3OK {
			done <- &StatusError{p, status}
		} else {
			done <- nil
		}
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		c.Caller.Cancel(x, context.Cause(ctx))
		return <-done
	}
}

// Status makes any call whose results begin with a status, and looks at nothing
// else of them.
func (c *Client) Status(ctx context.Context, p wire.Procedure, args Encoder) error {
	return c.call(ctx, p, args, nil, func(d *xdr.Decoder) wire.NFSStat3 {
		var status wire.NFSStat3
		status.Decode(d)
		d.Skip(len(d.Rest()))
		return status
	})
}

// Mount asks for the handle of a path by MOUNT.
func (c *Client) Mount(ctx context.Context, path string) (h Handle, err error) {
	dir := mount3wire.DirPath(path)
	x := &rpc.Exchange{
		Program: mount3wire.Program, Version: mount3wire.Version, Procedure: uint32(mount3wire.ProcMnt),
		Cred: c.Cred, Args: dir.Encode, MaxArgs: wordsRoom,
	}
	err = rpc.Do(ctx, c.Caller, x, func(d *xdr.Decoder) error {
		var res mount3wire.MountRes3
		res.Decode(d)
		if err := d.Err(); err != nil {
			return fmt.Errorf("MNT: results do not decode: %w", err)
		}
		if res.Status != mount3wire.OK {
			return &MountError{res.Status}
		}
		h = slices.Clone(Handle(res.ResOK.FileHandle))
		return nil
	})
	return h, err
}

// Null makes the call that does nothing.
func (c *Client) Null(ctx context.Context) error {
	return c.call(ctx, wire.ProcNull, nil, nil, nil)
}

// GetAttr asks for a file's attributes.
func (c *Client) GetAttr(ctx context.Context, h Handle) (wire.Fattr3, error) {
	var res wire.Getattr3Res
	err := c.call(ctx, wire.ProcGetattr, &wire.Getattr3Args{Object: fh(h)}, nil, func(d *xdr.Decoder) wire.NFSStat3 {
		res.Decode(d)
		return res.Status
	})
	return res.ResOK.ObjAttributes, err
}

// Lookup finds a name in a directory.
func (c *Client) Lookup(ctx context.Context, dir Handle, name string) (h Handle, err error) {
	err = c.call(ctx, wire.ProcLookup, &wire.Lookup3Args{What: at(dir, name)}, nil, func(d *xdr.Decoder) wire.NFSStat3 {
		var res wire.Lookup3Res
		res.Decode(d)
		h = slices.Clone(Handle(res.ResOK.Object.Data))
		return res.Status
	})
	return h, err
}

// Create makes a file, or opens the one that is there.
func (c *Client) Create(ctx context.Context, dir Handle, name string, mode uint32) (h Handle, err error) {
	args := &wire.Create3Args{Where: at(dir, name), How: wire.CreateHow3{
		Mode: wire.Unchecked, ObjAttributes: wire.Sattr3{Mode: wire.SetMode3{SetIt: true, Mode: mode}},
	}}
	err = c.call(ctx, wire.ProcCreate, args, nil, func(d *xdr.Decoder) wire.NFSStat3 {
		var res wire.Create3Res
		res.Decode(d)
		h = slices.Clone(Handle(res.ResOK.Obj.Handle.Data))
		return res.Status
	})
	return h, err
}

// Write writes data and says how much of it was written.
func (c *Client) Write(ctx context.Context, h Handle, offset uint64, data []byte, stable wire.StableHow) (n int, err error) {
	args := &wire.Write3Args{
		FileHandle: fh(h), Offset: offset, Count: uint32(len(data)), Stable: stable, Data: xdr.Eligible{Data: data},
	}
	err = c.call(ctx, wire.ProcWrite, args, nil, func(d *xdr.Decoder) wire.NFSStat3 {
		var res wire.Write3Res
		res.Decode(d)
		n = int(res.ResOK.Count)
		return res.Status
	})
	return n, err
}

// Read reads into p and says how much there was.
func (c *Client) Read(ctx context.Context, h Handle, offset uint64, p []byte) (n int, err error) {
	args := &wire.Read3Args{FileHandle: fh(h), Offset: offset, Count: uint32(len(p))}
	err = c.call(ctx, wire.ProcRead, args, p, func(d *xdr.Decoder) wire.NFSStat3 {
		var res wire.Read3Res
		res.Decode(d)
		n = copy(p, res.ResOK.Data.Data)
		return res.Status
	})
	return n, err
}

// Commit puts what was written on stable storage.
func (c *Client) Commit(ctx context.Context, h Handle) error {
	return c.call(ctx, wire.ProcCommit, &wire.Commit3Args{FileHandle: fh(h)}, nil, func(d *xdr.Decoder) wire.NFSStat3 {
		var res wire.Commit3Res
		res.Decode(d)
		return res.Status
	})
}

func fh(h Handle) wire.FileHandle3 { return wire.FileHandle3{Data: h} }

func at(dir Handle, name string) wire.DirOpArgs3 {
	return wire.DirOpArgs3{Dir: fh(dir), Name: []byte(name)}
}
