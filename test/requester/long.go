package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// longSize is the length of the data of a Long message, in bytes.
const longSize = 50_000

func (w work) address() (netip.AddrPort, error) {
	a, err := netip.ParseAddr(w.host)
	return netip.AddrPortFrom(a, uint16(w.port)), err
}

// long makes calls without direct data placement. WRITE calls are then in Position-Zero Read
// chunks, and READ replies in Reply chunks.
func (w work) long(ctx context.Context, root client.Handle) error {
	c, err := client.Dial(ctx, client.Target{Transport: client.RDMA, Host: w.host, Port: w.port, RDMAVersion: w.version, Cred: client.Self()})
	if err != nil {
		return err
	}
	defer c.Close()
	s := session{ctx: ctx, conn: c, nfs: c.NFS3(), root: root}
	file, err := s.create(root, "long")
	if err != nil {
		return err
	}
	device, err := iwarp.New(iwarp.Config{CRC: iwarp.CRCPeer})
	if err != nil {
		return err
	}
	addr, err := w.address()
	if err != nil {
		return err
	}
	k, err := rdma.Dial(ctx, device, addr, rdma.DialConfig{NoPlacement: true})
	if err != nil {
		return err
	}
	defer k.Close()
	data := pattern(77, longSize)
	if err := call(ctx, k, nfs3wire.ProcWrite, len(data)+nfs3wire.Write3ArgsMaxReducedSize, nil, func(x *xdr.Writer) {
		(&nfs3wire.Write3Args{
			FileHandle: nfs3wire.FileHandle3{Data: file}, Count: longSize, Stable: nfs3wire.FileSync, Data: xdr.Eligible{Data: data},
		}).Encode(x)
	}, func(d *xdr.Decoder) (nfs3wire.NFSStat3, error) {
		var res nfs3wire.Write3Res
		res.Decode(d)
		if res.Status == nfs3wire.NFS3OK && res.ResOK.Count != longSize {
			return res.Status, fmt.Errorf("%d of %d bytes were written", res.ResOK.Count, longSize)
		}
		return res.Status, d.Err()
	}); err != nil {
		return err
	}
	if err := s.back(file, 0, data); err != nil {
		return err
	}
	if err := call(ctx, k, nfs3wire.ProcRead, nfs3wire.Read3ArgsMaxSize, make([]byte, longSize), func(x *xdr.Writer) {
		(&nfs3wire.Read3Args{FileHandle: nfs3wire.FileHandle3{Data: file}, Count: longSize}).Encode(x)
	}, func(d *xdr.Decoder) (nfs3wire.NFSStat3, error) {
		var res nfs3wire.Read3Res
		res.Decode(d)
		if res.Status == nfs3wire.NFS3OK && !bytes.Equal(res.ResOK.Data.Data, data) {
			return res.Status, errors.New("what was read is not what was written")
		}
		return res.Status, d.Err()
	}); err != nil {
		return err
	}
	return s.nfs.Remove(ctx, root, "long")
}

// call makes one NFS call.
func call(ctx context.Context, k rpc.Caller, p nfs3wire.Procedure, maxArgs int, sink []byte, args func(*xdr.Writer), decode func(*xdr.Decoder) (nfs3wire.NFSStat3, error)) error {
	row := &nfs.Binding3.Procedures[p]
	x := rpc.Exchange{
		Program: nfs3wire.Program, Version: nfs3wire.Version, Procedure: uint32(p), Cred: client.Self(),
		Binding: row, MaxArgs: maxArgs, MaxResults: row.MaxResults, Args: args,
	}
	if sink != nil {
		x.Sinks = [][]byte{sink}
	}
	err := rpc.Do(ctx, k, &x, func(d *xdr.Decoder) error {
		status, err := decode(d)
		if err == nil && status != nfs3wire.NFS3OK {
			err = errors.New(status.String())
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%v: %w", p, err)
	}
	return nil
}

// answers is a connection's Handler that sends received messages to a channel.
type answers struct {
	got    chan []byte
	closed chan error
}

func (a *answers) Received(r *rdmacm.Recv) {
	a.got <- bytes.Clone(r.Bytes)
	r.Release()
}
func (a *answers) Closed(err error) { a.closed <- err }

// fault sends, twice, a header that lacks the Position-Zero Read chunk that it needs. The server
// must answer with RDMA_ERROR and ERR_CHUNK (RFC 8166 §4.5.3), and the connection must stay open.
func (w work) fault(ctx context.Context) error {
	addr, err := w.address()
	if err != nil {
		return err
	}
	device, err := iwarp.New(iwarp.Config{CRC: iwarp.CRCPeer})
	if err != nil {
		return err
	}
	const attempts = 2
	a := &answers{got: make(chan []byte, attempts), closed: make(chan error, 1)}
	conn, err := device.Dial(ctx, addr, rdmacm.ConnParam{Handler: a, Receives: attempts, ReceiveSize: rdma.DefaultInlineSize})
	if err != nil {
		return err
	}
	defer func() { <-conn.Done() }()
	defer conn.Disconnect()
	for xid := range uint32(attempts) {
		message := make([]byte, wire.MinHeader)
		wire.Prefix{XID: xid + 1, Version: wire.Version1, Credits: attempts, Proc: wire.ProcNoMsg}.Put(message)
		conn.Post(&rdmacm.Chain{
			Work: []rdmacm.Work{{Op: rdmacm.OpSend, Local: [][]byte{message}}},
			Done: func(*rdmacm.Chain, error, int) {},
		})
		select {
		case answer := <-a.got:
			p, _ := wire.ParsePrefix(answer)
			if e, ok := wire.ParseErrorBody(answer); !ok || p.XID != xid+1 || e.Code != wire.ErrChunk {
				return fmt.Errorf("answered by % x", answer)
			}
		case err := <-a.closed:
			return fmt.Errorf("the connection ended: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
