//go:build interop

package krb5

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss/krb5"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/krb5realm"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A question is one operation of a compound, with a variable for its result. If res is nil, the
// result is only a status.
type question struct {
	op   wire.OpNum
	args interface{ Encode(*xdr.Writer) }
	res  interface{ Decode(*xdr.Decoder) }
}

// ask makes a compound. It returns the status of the compound, and the number of operations that
// were executed.
func ask(t *testing.T, k rpc.Caller, minor uint32, all ...question) (status wire.NFSStat4, ran int) {
	t.Helper()
	x := &rpc.Exchange{Program: wire.Program, Version: wire.Version, Procedure: wire.ProcCompound, MaxArgs: 4096, Args: func(w *xdr.Writer) {
		w.Opaque(nil)
		w.Uint32(minor)
		w.Uint32(uint32(len(all)))
		for _, q := range all {
			w.Uint32(uint32(q.op))
			if q.args != nil {
				q.args.Encode(w)
			}
		}
	}}
	err := rpc.Do(t.Context(), k, x, func(d *xdr.Decoder) error {
		status = wire.NFSStat4(d.Int32())
		d.Opaque(64)
		n := int(d.Uint32())
		for ; ran < n && ran < len(all); ran++ {
			d.Int32()
			if res := all[ran].res; res != nil {
				res.Decode(d)
			} else if s := wire.NFSStat4(d.Int32()); s != wire.NFS4OK {
				ran++
				break
			}
		}
		return d.Err()
	})
	if err != nil {
		t.Fatalf("%v: %v", all[len(all)-1].op, err)
	}
	return status, ran
}

// A session4 is a session of minor version 1. It uses one slot.
type session4 struct {
	client uint64
	id     wire.SessionID4
	last   uint32
}

func (s *session4) sequence(keep bool) question {
	return question{wire.OpSequence, &wire.Sequence4Args{Sessionid: s.id, Sequenceid: s.last, Cachethis: keep}, new(wire.Sequence4Res)}
}

// ask makes a compound in the session.
func (s *session4) ask(t *testing.T, k rpc.Caller, all ...question) wire.NFSStat4 {
	t.Helper()
	s.last++
	status, _ := ask(t, k, 1, append([]question{s.sequence(false)}, all...)...)
	return status
}

func exchangeID(owner string, verifier byte, how wire.StateProtectHow4, res *wire.ExchangeID4Res) question {
	args := &wire.ExchangeID4Args{Clientowner: wire.ClientOwner4{Ownerid: []byte(owner), Verifier: wire.Verifier4{verifier}}, StateProtect: wire.StateProtect4A{How: how}}
	// This is the list that Linux's client sends.
	args.StateProtect.MachOps.MustEnforce = wire.Bits(uint32(wire.OpExchangeID), uint32(wire.OpCreateSession),
		uint32(wire.OpDestroySession), uint32(wire.OpBindConnToSession), uint32(wire.OpDestroyClientID))
	return question{wire.OpExchangeID, args, res}
}

func createSession(id *wire.ExchangeID4Res, res *wire.CreateSession4Res) question {
	channel := wire.ChannelAttrs4{Maxrequestsize: 8192, Maxresponsesize: 8192, MaxresponsesizeCached: 1024, Maxoperations: 16, Maxrequests: 1}
	return question{wire.OpCreateSession, &wire.CreateSession4Args{
		Clientid: id.ResOK.Clientid, Sequence: id.ResOK.Sequenceid, ForeChanAttrs: channel, BackChanAttrs: channel}, res}
}

// newSession4 creates a client ID and a session, with the arguments of Linux's client.
func newSession4(t *testing.T, k rpc.Caller, owner string, how wire.StateProtectHow4) *session4 {
	t.Helper()
	var id wire.ExchangeID4Res
	var made wire.CreateSession4Res
	if s, _ := ask(t, k, 1, exchangeID(owner, 1, how, &id)); s != wire.NFS4OK {
		t.Fatalf("EXCHANGE_ID: %v", s)
	}
	if s, _ := ask(t, k, 1, createSession(&id, &made)); s != wire.NFS4OK {
		t.Fatalf("CREATE_SESSION: %v", s)
	}
	s := &session4{client: id.ResOK.Clientid, id: made.ResOK.Sessionid}
	if st := s.ask(t, k, question{wire.OpReclaimComplete, &wire.ReclaimComplete4Args{}, nil}); st != wire.NFS4OK {
		t.Fatalf("RECLAIM_COMPLETE: %v", st)
	}
	return s
}

var putRoot = question{wire.OpPutRootFH, nil, nil}

func lookup(name string) question {
	return question{wire.OpLookup, &wire.Lookup4Args{Objname: wire.UTF8String(name)}, nil}
}

// openSecret returns an OPEN that creates a file with mode 0600.
func openSecret(owner wire.StateOwner4, seqid uint32, res *wire.Open4Res) question {
	a := &wire.Open4Args{Seqid: seqid, ShareAccess: wire.Open4ShareAccessBoth, Owner: owner, Claim: wire.OpenClaim4{Claim: wire.ClaimNull, File: wire.UTF8String("secret")}}
	a.Openhow.Opentype = wire.Open4Create
	var mode wire.FAttr4
	mode.Attrmask.Set(wire.Fattr4Mode)
	mode.AttrVals = []byte{0, 0, 0o600 >> 8, 0o600 & 0xff}
	a.Openhow.How = wire.Createhow4{Mode: wire.Unchecked4, Createattrs: mode}
	return question{wire.OpOpen, a, res}
}

func putFH(fh []byte) question {
	return question{wire.OpPutFH, &wire.PutFH4Args{Object: append([]byte(nil), fh...)}, nil}
}

func read4(id wire.StateID4, res *wire.Read4Res) question {
	return question{wire.OpRead, &wire.Read4Args{Stateid: id, Count: 100}, res}
}

func write4(id wire.StateID4, data string) question {
	a := &wire.Write4Args{Stateid: id, Stable: wire.FileSync4}
	a.Data.Data = []byte(data)
	return question{wire.OpWrite, a, new(wire.Write4Res)}
}

// A principals is a server with its users. Its methods make connections, and contexts of the
// users.
type principals struct {
	*site
	t    *testing.T
	addr string
	bob  string // credential cache
}

// newPrincipals runs a server that exports /data. Its realm has the users alice and bob.
func newPrincipals(t *testing.T, options string) *principals {
	s := newSite(t, krb5realm.ETypes[0])
	p := &principals{site: s, t: t, bob: filepath.Join(s.Dir, "bob")}
	if err := errors.Join(s.AddUser("bob", password, s.etype), s.Login("bob", password, p.bob, s.conf)); err != nil {
		t.Fatal(err)
	}
	p.addr = serveFiles(t, s, options)
	return p
}

func (p *principals) connect() rpc.Client {
	k, err := tcp.Dial(p.t.Context(), p.addr, tcp.DialConfig{})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(k.Close)
	return k
}

func (p *principals) under(k rpc.Caller, m gss.Mechanism, service rpc.GSSService) rpc.Caller {
	g, err := gss.NewClient(p.t.Context(), k, gss.ClientConfig{Mechanism: m, Target: target, Service: service, Program: wire.Program, Version: wire.Version})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(g.Close)
	return g
}

func (p *principals) asAlice(k rpc.Caller, service rpc.GSSService) rpc.Caller {
	return p.under(k, p.user(krb5.Config{}), service)
}

func (p *principals) asBob(k rpc.Caller) rpc.Caller {
	return p.under(k, krb5.New(krb5.Config{Conf: p.conf, Cache: "FILE:" + p.bob}), rpc.GSSIntegrity)
}

func (p *principals) asMachine(k rpc.Caller, service rpc.GSSService) rpc.Caller {
	return p.under(k, p.machine(krb5.Config{Principal: machine}), service)
}

func (p *principals) is(what string, got, want wire.NFSStat4) {
	p.t.Helper()
	if got != want {
		p.t.Errorf("%s: %v, want %v", what, got, want)
	}
}
