package nfs4test

import (
	"bytes"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A Realm has the keys by which Peers prove their principals to a server elsewhere. Only a Site that Far
// has made has one.
type Realm struct {
	// Server is the name of the server's principal.
	Server string
	// Users has, for each principal, a mechanism with its key.
	Users map[string]gss.Mechanism
}

// prove makes a call in a GSS context of the Peer's principal. It returns the reply as it would
// be with AUTH_SYS.
func (w *wireTo) prove(p *Peer, message []byte) (reply []byte) {
	p.T.Helper()
	d := xdr.NewDecoder(message)
	d.Skip(6 * 4) // XID, call, RPC version, program, version, procedure
	for range 2 { // credential, verifier
		d.Uint32()
		d.Opaque(rpc.MaxAuthBytes)
	}
	args := d.Rest()
	x := &rpc.Exchange{
		Program: wire.Program, Version: wire.Version, Procedure: wire.ProcCompound,
		Args: func(w *xdr.Writer) { w.FixedOpaque(args) }, MaxArgs: len(args),
	}
	var results []byte
	err := rpc.Do(p.T.Context(), w.as(p), x, func(d *xdr.Decoder) error {
		results = bytes.Clone(d.Rest())
		return nil
	})
	if err != nil {
		p.T.Fatalf("a call of %s: %v", p.Principal, err)
	}
	header := xdr.NewWriter(make([]byte, 0, 64))
	rpc.PutAccepted(header, xdr.NewDecoder(message).Uint32(), rpc.Success)
	return append(header.Bytes(), results...)
}

// as returns the GSS client for the Peer's principal on this connection. It creates the client at
// the first call.
func (w *wireTo) as(p *Peer) *gss.Client {
	p.T.Helper()
	if k := w.proven[p.Principal]; k != nil {
		return k
	}
	k, err := gss.NewClient(p.T.Context(), w, gss.ClientConfig{
		Mechanism: p.Realm.Users[p.Principal], Target: p.Realm.Server, Service: rpc.GSSIntegrity,
		Program: wire.Program, Version: wire.Version, Timeout: patience,
	})
	if err != nil {
		p.T.Fatalf("a context of %s: %v", p.Principal, err)
	}
	p.T.Cleanup(k.Close)
	if w.proven == nil {
		w.proven = map[string]*gss.Client{}
	}
	w.proven[p.Principal] = k
	return k
}

// Start implements rpc.Caller.
func (w *wireTo) Start(x *rpc.Exchange) {
	if w.over != nil {
		x.MaxResults = mostResults
		w.over.Start(x)
		return
	}
	x.XID = w.xid.Add(1)
	m := xdr.NewWriter(make([]byte, 0, x.HeaderSize()+x.MaxArgs))
	x.Put(m)
	go func() {
		reply, err := w.exchange(m.Bytes())
		x.Results.Reset(reply, 0, nil)
		if x.Err = err; err == nil {
			x.Read()
		}
		x.Done(x)
	}()
}

// Cancel implements rpc.Caller. It does nothing, because exchange has a time limit.
func (w *wireTo) Cancel(*rpc.Exchange, error) {}
