package nfs4test

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
)

// mostResults is the length of the longest results that a Peer takes over RDMA, in bytes.
const mostResults = 256 << 10

// dialVersion2 connects to the server by the software RNIC, with version 2 of RPC-over-RDMA. The machine's
// address is that of all Peers.
func (s *Site) dialVersion2() *rdma.Client {
	s.T.Helper()
	device, err := iwarp.New(iwarp.Config{})
	if err != nil {
		s.T.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := rdma.Dial(ctx, device, s.server, rdma.DialConfig{Version2: true, OnlyVersion2: true})
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() { c.Close() })
	return c
}

// carry makes a call over RDMA whose message is given. The reply has the XID of the message, and no verifier.
// The error is io.EOF if the server ended the connection.
func (w *wireTo) carry(message []byte) (reply []byte, err error) {
	d := xdr.NewDecoder(message)
	xid := d.Uint32()
	d.Skip(2 * 4) // call, RPC version
	x := &rpc.Exchange{Program: d.Uint32(), Version: d.Uint32(), Procedure: d.Uint32(), MaxResults: mostResults}
	x.Cred = rpc.AuthBytes{Flavor: rpc.Flavor(d.Uint32()), Body: bytes.Clone(d.Opaque(rpc.MaxAuthBytes))}
	d.Uint32() // verifier
	d.Opaque(rpc.MaxAuthBytes)
	args := d.Rest()
	x.Args, x.MaxArgs = func(w *xdr.Writer) { w.FixedOpaque(args) }, len(args)

	var results []byte
	err = rpc.Do(context.Background(), w.over, x, func(d *xdr.Decoder) error {
		results = bytes.Clone(d.Rest())
		return nil
	})
	status := rpc.AcceptStat(rpc.Success)
	if refused, ok := errors.AsType[*rpc.ReplyError](err); ok && !refused.Denied {
		status, err = refused.Stat, nil
	}
	if errors.Is(err, rpc.ErrCallLost) {
		err = io.EOF
	}
	header := xdr.NewWriter(make([]byte, 0, 64))
	rpc.PutAccepted(header, xid, status)
	return append(header.Bytes(), results...), err
}
