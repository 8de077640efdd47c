//go:build interop

package krb5

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// If a caller uses a stateid of another principal, the server checks READ, WRITE and SETATTR of
// the size by the caller's own permissions (RFC 8881 §18.16.3). This also holds for a client that
// protects its state by its machine credential.
func TestStateidOfAnotherPrincipal(t *testing.T) {
	p := newPrincipals(t, "rw,insecure,sec=krb5i:krb5p")
	conn := p.connect()
	host, alice, bob := p.asMachine(conn, rpc.GSSIntegrity), p.asAlice(conn, rpc.GSSIntegrity), p.asBob(conn)
	s := newSession4(t, host, "machine", wire.Sp4MachCred)
	var open wire.Open4Res
	var fh wire.GetFH4Res
	p.is("OPEN", s.ask(t, alice, putRoot, lookup("data"), openSecret(wire.StateOwner4{Clientid: s.client, Owner: []byte("alice")}, 0, &open),
		question{wire.OpGetFH, nil, &fh}), wire.NFS4OK)
	id, put := open.ResOK.Stateid, putFH(fh.ResOK.Object)
	p.is("WRITE", s.ask(t, alice, put, write4(id, "top secret")), wire.NFS4OK)

	var size wire.FAttr4
	size.Attrmask.Set(wire.Fattr4Size)
	size.AttrVals = []byte{0, 0, 0, 0, 0, 0, 0, 3}
	again := &wire.Open4Args{ShareAccess: wire.Open4ShareAccessRead, Owner: wire.StateOwner4{Owner: []byte("bob")}, Claim: wire.OpenClaim4{Claim: wire.ClaimFH}}
	for name, k := range map[string]rpc.Caller{"bob": bob, "the machine": host} {
		p.is("OPEN by "+name, s.ask(t, k, put, question{wire.OpOpen, again, new(wire.Open4Res)}), wire.NFS4ErrAccess)
		p.is("READ without a state by "+name, s.ask(t, k, put, read4(wire.StateID4{}, new(wire.Read4Res))), wire.NFS4ErrAccess)
		p.is("READ by "+name, s.ask(t, k, put, read4(id, new(wire.Read4Res))), wire.NFS4ErrAccess)
		p.is("WRITE by "+name, s.ask(t, k, put, write4(id, "was here")), wire.NFS4ErrAccess)
		p.is("SETATTR of the size by "+name, s.ask(t, k, put, question{wire.OpSetattr, &wire.Setattr4Args{Stateid: id, ObjAttributes: size}, nil}), wire.NFS4ErrAccess)
	}
	var read wire.Read4Res
	p.is("READ", s.ask(t, alice, put, read4(id, &read)), wire.NFS4OK)
	if got := string(read.ResOK.Data.Data); got != "top secret" {
		t.Errorf("the file has %q", got)
	}
	p.is("CLOSE", s.ask(t, alice, put, question{wire.OpClose, &wire.Close4Args{OpenStateid: id}, new(wire.Close4Res)}), wire.NFS4OK)
}

// In minor version 0, a stateid or a file handle gives another principal no permissions, although
// any connection may use it and krb5i sends it unencrypted. If another principal repeats the last
// request of an owner, it does not get the owner's reply (RFC 7530 §9.1.9).
func TestStateidAndReplyOfAnotherPrincipalInMinorVersion0(t *testing.T) {
	p := newPrincipals(t, "rw,insecure,sec=krb5i")
	host, alice, bob := p.asMachine(p.connect(), rpc.GSSIntegrity), p.asAlice(p.connect(), rpc.GSSIntegrity), p.asBob(p.connect())
	run := func(k rpc.Caller, all ...question) wire.NFSStat4 {
		t.Helper()
		st, _ := ask(t, k, 0, all...)
		return st
	}
	var id wire.SetClientID4Res
	p.is("SETCLIENTID", run(host, question{wire.OpSetClientID, &wire.SetClientID4Args{Client: wire.NFSClientID4{ID: []byte("machine")},
		Callback: wire.CBClient4{CBLocation: wire.NetAddr4{RNetid: []byte("tcp"), RAddr: []byte("127.0.0.1.0.0")}}}, &id}), wire.NFS4OK)
	p.is("SETCLIENTID_CONFIRM", run(host, question{wire.OpSetClientIDConfirm,
		&wire.SetClientIDConfirm4Args{Clientid: id.ResOK.Clientid, SetclientidConfirm: id.ResOK.SetclientidConfirm}, nil}), wire.NFS4OK)
	owner := wire.StateOwner4{Clientid: id.ResOK.Clientid, Owner: []byte("alice")}
	openIt := func(k rpc.Caller, seqid uint32) (st wire.NFSStat4, id wire.StateID4, fh []byte) {
		t.Helper()
		var open wire.Open4Res
		var got wire.GetFH4Res
		st = run(k, putRoot, lookup("data"), openSecret(owner, seqid, &open), question{wire.OpGetFH, nil, &got})
		return st, open.ResOK.Stateid, append([]byte(nil), got.ResOK.Object...)
	}
	st, sid, fh := openIt(alice, 1)
	p.is("OPEN", st, wire.NFS4OK)
	put := putFH(fh)
	p.is("OPEN_CONFIRM", run(alice, put, question{wire.OpOpenConfirm, &wire.OpenConfirm4Args{OpenStateid: sid, Seqid: 2}, new(wire.OpenConfirm4Res)}), wire.NFS4OK)
	st, sid, _ = openIt(alice, 3)
	p.is("OPEN once more", st, wire.NFS4OK)
	p.is("WRITE", run(alice, put, write4(sid, "top secret")), wire.NFS4OK)

	p.is("READ without a state by bob", run(bob, put, read4(wire.StateID4{}, new(wire.Read4Res))), wire.NFS4ErrAccess)
	p.is("READ by bob", run(bob, put, read4(sid, new(wire.Read4Res))), wire.NFS4ErrAccess)
	p.is("WRITE by bob", run(bob, put, write4(sid, "was here")), wire.NFS4ErrAccess)
	st, stolen, _ := openIt(bob, 3)
	p.is("the last OPEN, by bob", st, wire.NFS4ErrBadSeqID)
	if stolen == sid {
		t.Error("bob was told the stateid")
	}
	st, same, _ := openIt(alice, 3)
	p.is("the last OPEN, again", st, wire.NFS4OK)
	if same != sid {
		t.Errorf("the last OPEN has %v, and again %v", sid, same)
	}
	// The RFC lets a server refuse this (RFC 7530 §16.2.5). This server permits it.
	p.is("CLOSE by bob", run(bob, put, question{wire.OpClose, &wire.Close4Args{OpenStateid: sid, Seqid: 4}, new(wire.Close4Res)}), wire.NFS4OK)
}

// If a client protects its state by its machine credential, an EXCHANGE_ID without integrity does
// not restart the client and changes nothing (RFC 8881 §2.4.3). Otherwise an attacker who can
// change packets could turn any call that the machine makes under krb5 into such an EXCHANGE_ID.
func TestRestartOfAMachineTakesIntegrity(t *testing.T) {
	p := newPrincipals(t, "rw,insecure,sec=krb5:krb5i")
	conn := p.connect()
	host, alice := p.asMachine(conn, rpc.GSSIntegrity), p.asAlice(conn, rpc.GSSIntegrity)
	s := newSession4(t, host, "machine", wire.Sp4MachCred)
	var open wire.Open4Res
	p.is("OPEN", s.ask(t, alice, putRoot, lookup("data"), openSecret(wire.StateOwner4{Clientid: s.client, Owner: []byte("alice")}, 0, &open)), wire.NFS4OK)

	weak := p.asMachine(p.connect(), rpc.GSSNone)
	for verifier := range byte(3) {
		st, _ := ask(t, weak, 1, exchangeID("machine", verifier, wire.Sp4None, new(wire.ExchangeID4Res)))
		p.is("EXCHANGE_ID without integrity", st, wire.NFS4ErrClIDInUse)
	}
	p.is("a call of the session", s.ask(t, alice, putRoot), wire.NFS4OK)
	var id wire.ExchangeID4Res
	st, _ := ask(t, host, 1, exchangeID("machine", 2, wire.Sp4MachCred, &id))
	p.is("EXCHANGE_ID of the machine that has started anew", st, wire.NFS4OK)
	st, _ = ask(t, host, 1, createSession(&id, new(wire.CreateSession4Res)))
	p.is("its CREATE_SESSION", st, wire.NFS4OK)
	p.is("a call of the session before", s.ask(t, alice, putRoot), wire.NFS4ErrBadSession)
}

// A machine with Kerberos can take its client name from a client with AUTH_SYS that has the same
// name, if that client has only sessions. It has no open files, and every export here requires
// Kerberos.
func TestNameOfAMachineIsNotKeptByAuthSys(t *testing.T) {
	p := newPrincipals(t, "rw,insecure,sec=krb5p")
	const name = "Linux NFSv4.2 client.krb5.test"
	newSession4(t, signedBySys{p.connect()}, name, wire.Sp4None)
	newSession4(t, p.asMachine(p.connect(), rpc.GSSIntegrity), name, wire.Sp4MachCred)
}

// The server does not replay under krb5 a cached reply to a request that came under krb5p,
// because that would disclose it.
func TestReplyUnderPrivacyIsNotRepeatedInClear(t *testing.T) {
	p := newPrincipals(t, "rw,insecure,sec=krb5p")
	conn := p.connect()
	sealed, bare := p.asAlice(conn, rpc.GSSPrivacy), p.asAlice(conn, rpc.GSSNone)
	s := newSession4(t, p.asMachine(conn, rpc.GSSIntegrity), "machine", wire.Sp4MachCred)
	var open wire.Open4Res
	var fh wire.GetFH4Res
	p.is("OPEN", s.ask(t, sealed, putRoot, lookup("data"), openSecret(wire.StateOwner4{Clientid: s.client, Owner: []byte("alice")}, 0, &open),
		question{wire.OpGetFH, nil, &fh}), wire.NFS4OK)
	id, put := open.ResOK.Stateid, putFH(fh.ResOK.Object)
	p.is("WRITE", s.ask(t, sealed, put, write4(id, "top secret")), wire.NFS4OK)
	p.is("READ under krb5", s.ask(t, bare, put, read4(id, new(wire.Read4Res))), wire.NFS4ErrWrongSec)
	s.last++
	for range 2 {
		var read wire.Read4Res
		st, _ := ask(t, sealed, 1, s.sequence(true), put, read4(id, &read))
		p.is("READ under krb5p", st, wire.NFS4OK)
		if got := string(read.ResOK.Data.Data); got != "top secret" {
			t.Errorf("READ under krb5p: %q", got)
		}
		st, ran := ask(t, bare, 1, s.sequence(true), put, read4(id, new(wire.Read4Res)))
		p.is("the same under krb5", st, wire.NFS4ErrSeqFalseRetry)
		if ran > 1 {
			t.Error("the same under krb5 is answered behind SEQUENCE")
		}
	}
}
