package nfs41

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

func TestExchangeIDFlags(t *testing.T) {
	for _, c := range []struct {
		name  string
		minor uint32
		flags uint32
		want  wire.NFSStat4
	}{
		{"none", 1, 0, wire.NFS4OK},
		{"all that a client may set", 1, 0x70103, wire.NFS4OK},
		{"one that minor version 2 has", 1, 4, wire.NFS4ErrInvalid},
		{"one that minor version 2 has, in it", 2, 4, wire.NFS4OK},
		{"one without a meaning", 2, 8, wire.NFS4ErrInvalid},
		{"one that is the server's", 1, 0x80000000, wire.NFS4ErrInvalid},
		{"update of nothing", 1, 0x40000000, wire.NFS4ErrNoEnt},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _ := site(t, Config{}, state.Config{})
			args := exchangeArgs("client", 1)
			args.Flags = c.flags
			res := exchange(s.Peer(c.minor), args)
			if res.Status != c.want {
				t.Fatalf("%v, not %v", res.Status, c.want)
			}
			if res.Status == wire.NFS4OK && res.ResOK.Flags != wire.Exchgid4FlagUseNonPNFS {
				t.Errorf("flags %#x", res.ResOK.Flags)
			}
		})
	}
}

func TestExchangeIDResult(t *testing.T) {
	when := time.Unix(1700000000, 5)
	site, m := site(t, Config{
		Owner: []byte("major"), OwnerMinor: 7, Scope: []byte("here"), Domain: "example.org", Name: "nfsrdmad", Date: when,
	}, state.Config{})
	p := site.Peer(1)
	args := exchangeArgs("client", 1)
	args.ClientImplID = wire.OptNFSImplID4{Present: true, Value: wire.NFSImplID4{Domain: []byte("d"), Name: []byte("n")}}
	res := exchange(p, args).ResOK
	if string(res.ServerOwner.MajorID) != "major" || res.ServerOwner.MinorID != 7 || string(res.ServerScope) != "here" {
		t.Errorf("%+v", res)
	}
	if v := res.ServerImplID.Value; string(v.Domain) != "example.org" || string(v.Name) != "nfsrdmad" || v.Date.Seconds != 1700000000 || v.Date.Nseconds != 5 {
		t.Errorf("%+v", v)
	}
	if !m.state.Issued(res.Clientid) || res.StateProtect.How != wire.Sp4None {
		t.Errorf("%+v", res)
	}
	newSession(p, res.Clientid, res.Sequenceid)
	if again := exchange(p, args).ResOK; again.Clientid != res.Clientid || again.Flags != wire.Exchgid4FlagUseNonPNFS|wire.Exchgid4FlagConfirmedR {
		t.Errorf("%+v", again)
	}
}

// Two users with AUTH_SYS are two principals: the second one cannot use the first one's client
// name.
func TestPrincipalsOfClients(t *testing.T) {
	site, _ := site(t, Config{}, state.Config{})
	p, other := site.Peer(1), site.Peer(1)
	other.UID = 1000
	s := newClientSession(p, "client")
	is(t, "a collision", exchange(other, exchangeArgs("client", 1)).Status, wire.NFS4ErrClIDInUse)
	update := exchangeArgs("client", 1)
	update.Flags = wire.Exchgid4FlagUpdConfirmedRecA
	is(t, "an update by another", exchange(other, update).Status, wire.NFS4ErrPerm)
	is(t, "an update", exchange(p, update).Status, wire.NFS4OK)
	update.Clientowner.Verifier[0]++
	is(t, "an update by another incarnation", exchange(p, update).Status, wire.NFS4ErrNotSame)
	is(t, "DESTROY_SESSION", single(p, op(wire.OpDestroySession, &wire.DestroySession4Args{Sessionid: s.id}), nil), wire.NFS4OK)
	is(t, "a collision without a session", exchange(other, exchangeArgs("client", 1)).Status, wire.NFS4OK)
}

// The confirmation of a new incarnation ends the sessions of the earlier one.
func TestSessionsEndWithTheirIncarnation(t *testing.T) {
	p := peer(t)
	old := newClientSession(p, "client")
	next := newClient(p, "client", 2)
	want(t, "before the confirmation", old.run(rootOp), wire.NFS4OK, 2)
	newSession(p, next, 1)
	want(t, "after the confirmation", old.run(rootOp), wire.NFS4ErrBadSession, 1)
	is(t, "CREATE_SESSION of the old client", create(p, createArgs(old.client, 2)).Status, wire.NFS4ErrStaleClientID)
}

// oids encodes a list of object identifiers for SP4_SSV.
func oids(t *testing.T, list ...string) (v wire.SsvSpParms4HashAlgs) {
	w := xdr.NewWriter(make([]byte, 0, 256))
	w.Uint32(uint32(len(list)))
	for _, s := range list {
		w.Opaque([]byte(s))
	}
	d := xdr.NewDecoder(w.Bytes())
	if v.Decode(d); d.Err() != nil {
		t.Fatal(d.Err())
	}
	return v
}

func encryption(t *testing.T, list ...string) (v wire.SsvSpParms4EncrAlgs) {
	w := xdr.NewWriter(make([]byte, 0, 256))
	h := oids(t, list...)
	h.Encode(w)
	v.Decode(xdr.NewDecoder(w.Bytes()))
	return v
}

var machine = rpc.Cred{Flavor: rpc.AuthGSS, Principal: "host/client@REALM", GSS: rpc.GSSIntegrity, Mechanism: []byte{1, 2}}

func TestStateProtection(t *testing.T) {
	sys := rpc.Cred{Flavor: rpc.AuthSys}
	plain := machine
	plain.GSS = rpc.GSSNone
	mach := wire.StateProtect4A{How: wire.Sp4MachCred, MachOps: wire.StateProtectOps4{
		MustEnforce: wire.Bits(uint32(wire.OpCreateSession), uint32(wire.OpBindConnToSession), uint32(wire.OpRead)),
		MustAllow:   wire.Bits(uint32(wire.OpClose), uint32(wire.OpRemove)),
	}}
	ssv := wire.StateProtect4A{How: wire.Sp4Ssv}
	ssv.SsvParms.HashAlgs, ssv.SsvParms.EncrAlgs = oids(t, "hash"), encryption(t, "aes")
	ssv.SsvParms.Window = 1
	closed := ssv
	closed.SsvParms.Window = 0
	half := ssv
	half.SsvParms.HashAlgs = oids(t)
	for _, c := range []struct {
		name string
		cred *rpc.Cred
		ask  *wire.StateProtect4A
		want wire.NFSStat4
	}{
		{"none", &sys, &wire.StateProtect4A{}, wire.NFS4OK},
		{"machine credential", &machine, &mach, wire.NFS4OK},
		{"machine credential without integrity", &plain, &mach, wire.NFS4ErrInvalid},
		{"machine credential without RPCSEC_GSS", &sys, &mach, wire.NFS4ErrInvalid},
		{"SSV", &machine, &ssv, wire.NFS4ErrEncrAlgUnsupp},
		{"SSV without algorithms", &machine, &half, wire.NFS4ErrInvalid},
		{"SSV without RPCSEC_GSS", &sys, &ssv, wire.NFS4ErrEncrAlgUnsupp},
		{"SSV without a window", &machine, &closed, wire.NFS4ErrInvalid},
	} {
		p, s := protectionOf(c.cred, c.ask)
		is(t, c.name, s, c.want)
		if s == wire.NFS4OK && p.result().How != c.ask.How {
			t.Errorf("%s: %v", c.name, p.result().How)
		}
	}

	p, _ := protectionOf(&machine, &mach)
	asked := wire.Bits(uint32(wire.OpBindConnToSession))
	if r := p.result().MachOps; r.MustEnforce != asked.Or(&always) ||
		r.MustAllow != wire.Bits(uint32(wire.OpClose)) {
		t.Errorf("%+v", r)
	}
	user := machine
	user.Principal = "user@REALM"
	mechanism := machine
	mechanism.Mechanism = []byte{1, 3}
	for name, c := range map[string]struct {
		cred *rpc.Cred
		want bool
	}{"the machine": {&machine, true}, "without integrity": {&plain, false}, "a user": {&user, false}, "AUTH_SYS": {&sys, false}, "another mechanism": {&mechanism, false}} {
		if p.permits(c.cred, wire.OpCreateSession) != c.want {
			t.Errorf("%s may make sessions: %v", name, !c.want)
		}
		if p.permits(c.cred, wire.OpDestroySession) != c.want {
			t.Errorf("%s may end sessions, although the client did not ask for it: %v", name, !c.want)
		}
		if !p.permits(c.cred, wire.OpBackchannelCtl) {
			t.Errorf("%s may not do what the client did not ask to be protected", name)
		}
		l := &slot{session: &Session{client: &client{protect: p}}}
		if l.MachineMay(c.cred, wire.OpClose) != c.want || l.MachineMay(c.cred, wire.OpRemove) {
			t.Errorf("%s may close what others opened: %v", name, !c.want)
		}
	}
	if !p.binds() || new(protection).binds() {
		t.Error("connections are bound by the wrong clients")
	}
}

// The RPC layer denies EXCHANGE_ID to a peer that no export serves. The report to the administrator
// distinguishes a wrong address from an unprivileged port.
func TestStrangersAreNoClients(t *testing.T) {
	site, _ := site(t, Config{}, state.Config{})
	var told []export.Refusal
	site.Exports.OnRefusal = func(r *export.Refusal) { told = append(told, *r) }
	site.Export.Clients = []netip.Prefix{netip.MustParsePrefix("10.1.2.3/32")}
	p := peerFrom(site, 1)
	c := p.End(p.Begin(p.Message("", op(wire.OpExchangeID, exchangeArgs("stranger", 1)))))
	var denied *rpc.ReplyError
	if _, err := c.Results(); !errors.As(err, &denied) || denied.Auth != rpc.AuthBadCred {
		t.Errorf("%v", err)
	}
	newClientSession(site.Peer(1), "client")
	site.Export.Secure = true
	p = site.Peer(1)
	p.Conn = site.RPC.NewConn(netip.MustParseAddrPort("10.1.2.3:40000"), netip.AddrPort{}, "tcp", false)
	p.End(p.Begin(p.Message("", op(wire.OpExchangeID, exchangeArgs("unprivileged", 1)))))
	// A caller with Kerberos may come from any port. That changes nothing for other callers of
	// its connection.
	p.Principal = "host/client@TEST"
	p.Compound(op(wire.OpExchangeID, exchangeArgs("proven", 1)))
	p.Principal = ""
	p.Conn.MarkKnown()
	c = p.End(p.Begin(p.Message("", op(wire.OpExchangeID, exchangeArgs("unprivileged beside it", 1)))))
	if _, err := c.Results(); !errors.As(err, &denied) {
		t.Errorf("beside a caller with Kerberos: %v", err)
	}
	if len(told) != 3 || told[0].Reason != export.Stranger || told[0].Client.Addr() != netip.MustParseAddr("10.2.0.1") || told[0].Status != rpc.AuthBadCred ||
		told[1].Reason != export.UnprivilegedPort || told[1].Export != site.Export {
		t.Errorf("%+v", told)
	}
}

// Only the machine credential of a client with SP4_MACH_CRED can create and end its sessions and
// end the client, even if the client did not ask the server to enforce that (RFC 8881 §18.37.3,
// §2.10.8.3).
func TestMachineEndsItsSessions(t *testing.T) {
	p := peer(t)
	p.Principal = "host/client@TEST"
	args := exchangeArgs("machine", 1)
	args.StateProtect.How = wire.Sp4MachCred
	named := exchange(p, args)
	if named.Status != wire.NFS4OK || !named.ResOK.StateProtect.MachOps.MustEnforce.Has(uint32(wire.OpDestroySession)) {
		t.Fatalf("%v, enforced %v", named.Status, named.ResOK.StateProtect.MachOps.MustEnforce)
	}
	s := newSession(p, named.ResOK.Clientid, 1)
	end := op(wire.OpDestroySession, &wire.DestroySession4Args{Sessionid: s.id})
	for _, c := range []struct {
		by   string
		o    nfs4test.Op
		want wire.NFSStat4
	}{
		{"alice@TEST", op(wire.OpCreateSession, createArgs(s.client, 2)), wire.NFS4ErrWrongCred},
		{"", op(wire.OpCreateSession, createArgs(s.client, 2)), wire.NFS4ErrWrongCred},
		{"alice@TEST", end, wire.NFS4ErrWrongCred}, {"", end, wire.NFS4ErrWrongCred}, {"host/client@TEST", end, wire.NFS4OK},
		{"alice@TEST", op(wire.OpDestroyClientID, &wire.DestroyClientID4Args{Clientid: s.client}), wire.NFS4ErrWrongCred},
		{"host/client@TEST", op(wire.OpDestroyClientID, &wire.DestroyClientID4Args{Clientid: s.client}), wire.NFS4OK},
	} {
		p.Principal = c.by
		is(t, fmt.Sprintf("%v by %q", c.o.Number, c.by), single(p, c.o, nil), c.want)
	}
}
