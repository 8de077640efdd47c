//go:build interop

package krb5

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/krb5realm"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// An op4 is one operation of a compound.
type op4 struct {
	op   wire.OpNum
	args interface{ Encode(*xdr.Writer) }
}

// status4 makes a compound of minor version 1 and returns its status. If the status is NFS4_OK,
// status4 decodes the first result into res.
func status4(t *testing.T, k rpc.Caller, res interface{ Decode(*xdr.Decoder) }, ops ...op4) (status wire.NFSStat4) {
	t.Helper()
	x := &rpc.Exchange{Program: wire.Program, Version: wire.Version, Procedure: wire.ProcCompound, MaxArgs: 4096, Args: func(w *xdr.Writer) {
		w.Opaque(nil)
		w.Uint32(1)
		w.Uint32(uint32(len(ops)))
		for _, o := range ops {
			w.Uint32(uint32(o.op))
			if o.args != nil {
				o.args.Encode(w)
			}
		}
	}}
	err := rpc.Do(t.Context(), k, x, func(d *xdr.Decoder) error {
		status = wire.NFSStat4(d.Int32())
		d.Opaque(64)
		d.Uint32()
		d.Int32()
		if res != nil && status == wire.NFS4OK {
			res.Decode(d)
		}
		return d.Err()
	})
	if err != nil {
		t.Fatalf("%v: %v", ops[len(ops)-1].op, err)
	}
	return status
}

// If a client protects its state by its machine credential (SP4_MACH_CRED), only that principal
// may manage the state, at least with integrity (RFC 8881 §2.10.8.3, §18.35.3). Other users of
// the client share its sessions. MIT's library creates the contexts of the calls.
func TestMachineCredential(t *testing.T) {
	s := newSite(t, krb5realm.ETypes[0])
	bob := filepath.Join(s.Dir, "bob")
	if err := errors.Join(s.AddUser("bob", password, s.etype), s.Login("bob", password, bob, s.conf)); err != nil {
		t.Fatal(err)
	}
	addr := serveFiles(t, s, "rw,insecure,sec=krb5:krb5i:krb5p")
	connect := func() rpc.Client {
		k, err := tcp.Dial(t.Context(), addr, tcp.DialConfig{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(k.Close)
		return k
	}
	under := func(k rpc.Caller, cache string, service rpc.GSSService) rpc.Caller {
		g, err := gss.NewClient(t.Context(), k, gss.ClientConfig{Mechanism: s.mitAs(t, cache), Target: target, Service: service, Program: wire.Program, Version: wire.Version})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(g.Close)
		return g
	}
	conn := connect()
	alice0, aliceI, aliceP := under(conn, s.cache, rpc.GSSNone), under(conn, s.cache, rpc.GSSIntegrity), under(conn, s.cache, rpc.GSSPrivacy)
	bobI := under(conn, bob, rpc.GSSIntegrity)
	sys := signedBySys{conn}
	want := func(what string, got, want wire.NFSStat4) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}

	enforce := []uint32{uint32(wire.OpExchangeID), uint32(wire.OpCreateSession), uint32(wire.OpDestroySession), uint32(wire.OpBindConnToSession),
		uint32(wire.OpDestroyClientID), uint32(wire.OpBackchannelCtl), uint32(wire.OpDelegpurge)}
	exchange := wire.ExchangeID4Args{Clientowner: wire.ClientOwner4{Ownerid: []byte("machine")}, StateProtect: wire.StateProtect4A{
		How: wire.Sp4MachCred, MachOps: wire.StateProtectOps4{MustEnforce: wire.Bits(enforce...)},
	}}
	again := exchange
	again.Flags = wire.Exchgid4FlagUpdConfirmedRecA
	exchangeID := op4{wire.OpExchangeID, &exchange}
	for name, k := range map[string]rpc.Caller{"AUTH_SYS": sys, "krb5 without integrity": alice0} {
		want("SP4_MACH_CRED under "+name, status4(t, k, nil, exchangeID), wire.NFS4ErrInvalid)
	}
	var id wire.ExchangeID4Res
	want("EXCHANGE_ID", status4(t, aliceI, &id, exchangeID), wire.NFS4OK)
	for _, op := range enforce {
		if !id.ResOK.StateProtect.MachOps.MustEnforce.Has(op) {
			t.Errorf("%v is not enforced", wire.OpNum(op))
		}
	}

	channel := wire.ChannelAttrs4{Maxrequestsize: 4096, Maxresponsesize: 4096, MaxresponsesizeCached: 1024, Maxoperations: 8, Maxrequests: 1}
	create := op4{wire.OpCreateSession, &wire.CreateSession4Args{Clientid: id.ResOK.Clientid, Sequence: id.ResOK.Sequenceid, ForeChanAttrs: channel, BackChanAttrs: channel}}
	for name, k := range map[string]rpc.Caller{"AUTH_SYS": sys, "krb5 without integrity": alice0, "another principal": bobI} {
		want("CREATE_SESSION under "+name, status4(t, k, nil, create), wire.NFS4ErrWrongCred)
	}
	var made wire.CreateSession4Res
	want("CREATE_SESSION", status4(t, aliceP, &made, create), wire.NFS4OK)
	session := made.ResOK.Sessionid

	slot := uint32(0)
	in := func(k rpc.Caller, ops ...op4) wire.NFSStat4 {
		t.Helper()
		slot++
		return status4(t, k, nil, append([]op4{{wire.OpSequence, &wire.Sequence4Args{Sessionid: session, Sequenceid: slot}}}, ops...)...)
	}
	for name, k := range map[string]rpc.Caller{"the machine": aliceI, "another user": bobI, "AUTH_SYS": sys} {
		want("PUTROOTFH of "+name, in(k, op4{wire.OpPutRootFH, nil}, op4{wire.OpSaveFH, nil}), wire.NFS4OK)
	}
	control := op4{wire.OpBackchannelCtl, &wire.BackchannelCtl4Args{CBProgram: callbackProgram}}
	for name, k := range map[string]rpc.Caller{"AUTH_SYS": sys, "krb5 without integrity": alice0, "another principal": bobI} {
		want("BACKCHANNEL_CTL under "+name, in(k, control), wire.NFS4ErrWrongCred)
		want("DELEGPURGE under "+name, in(k, op4{wire.OpDelegpurge, &wire.DelegPurge4Args{}}), wire.NFS4ErrWrongCred)
		want("EXCHANGE_ID that updates, under "+name, status4(t, k, nil, op4{wire.OpExchangeID, &wire.ExchangeID4Args{
			Clientowner: exchange.Clientowner, Flags: again.Flags}}), wire.NFS4ErrPerm)
	}
	want("BACKCHANNEL_CTL", in(aliceI, control), wire.NFS4OK)
	want("EXCHANGE_ID that updates", status4(t, aliceP, &id, op4{wire.OpExchangeID, &again}), wire.NFS4OK)
	want("EXCHANGE_ID of another principal", status4(t, bobI, nil, exchangeID), wire.NFS4ErrClIDInUse)

	// Requests can use a second connection after the machine has bound it to the session.
	second := connect()
	bob2, alice2 := under(second, bob, rpc.GSSIntegrity), under(second, s.cache, rpc.GSSIntegrity)
	want("SEQUENCE on a connection that is not bound", in(alice2), wire.NFS4ErrConnNotBoundToSession)
	slot--
	bind := op4{wire.OpBindConnToSession, &wire.BindConnToSession4Args{Sessid: session, Dir: wire.Cdfc4Fore}}
	want("BIND_CONN_TO_SESSION of another principal", status4(t, bob2, nil, bind), wire.NFS4ErrWrongCred)
	want("BIND_CONN_TO_SESSION", status4(t, alice2, nil, bind), wire.NFS4OK)
	want("SEQUENCE of another user there", in(bob2), wire.NFS4OK)

	destroy := op4{wire.OpDestroySession, &wire.DestroySession4Args{Sessionid: session}}
	end := op4{wire.OpDestroyClientID, &wire.DestroyClientID4Args{Clientid: id.ResOK.Clientid}}
	for name, k := range map[string]rpc.Caller{"AUTH_SYS": sys, "krb5 without integrity": alice0, "another principal": bobI} {
		want("DESTROY_SESSION under "+name, status4(t, k, nil, destroy), wire.NFS4ErrWrongCred)
		want("DESTROY_CLIENTID under "+name, status4(t, k, nil, end), wire.NFS4ErrWrongCred)
	}
	want("DESTROY_SESSION", status4(t, aliceI, nil, destroy), wire.NFS4OK)
	want("DESTROY_CLIENTID", status4(t, aliceP, nil, end), wire.NFS4OK)
}

// signedBySys makes calls with AUTH_SYS.
type signedBySys struct{ rpc.Caller }

func (k signedBySys) Start(x *rpc.Exchange) {
	x.Cred = client.Self()
	k.Caller.Start(x)
}
