package nfs41

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// site makes a server with minor versions 1 and 2.
func site(t testing.TB, cfg Config, st state.Config) (*nfs4test.Site, *Minor) {
	var m *Minor
	s := nfs4test.New(t, nfs4test.Config{State: st, Minors: func(sm *state.Manager) [3]nfs4.Minor {
		cfg.State = sm
		if cfg.Owner == nil {
			cfg.Owner, cfg.Scope = []byte("owner"), []byte("scope")
		}
		m = New(cfg)
		return [3]nfs4.Minor{nil, m, m}
	}})
	return s, m
}

func peer(t testing.TB) *nfs4test.Peer {
	s, _ := site(t, Config{}, state.Config{})
	return s.Peer(1)
}

type encoder interface{ Encode(w *xdr.Writer) }

func op(n wire.OpNum, args ...encoder) nfs4test.Op {
	o := nfs4test.Op{Number: n}
	if len(args) > 0 {
		o.Args = args[0]
	}
	return o
}

var rootOp = op(wire.OpPutRootFH)

func exchangeArgs(name string, verifier byte) *wire.ExchangeID4Args {
	return &wire.ExchangeID4Args{Clientowner: wire.ClientOwner4{Verifier: wire.Verifier4{verifier}, Ownerid: []byte(name)}}
}

// single runs a compound of one operation and returns its status. If res is not nil, single decodes
// the result into res.
func single(p *nfs4test.Peer, o nfs4test.Op, res interface{ Decode(d *xdr.Decoder) }) wire.NFSStat4 {
	p.T.Helper()
	r := p.Compound(o)
	if len(r.Ops) != 1 || r.Status != r.Ops[0].Status {
		p.T.Fatalf("%+v", r)
	}
	if res != nil {
		r.Ops[0].Into(p.T, res)
	}
	return r.Status
}

func exchange(p *nfs4test.Peer, args *wire.ExchangeID4Args) wire.ExchangeID4Res {
	p.T.Helper()
	var res wire.ExchangeID4Res
	single(p, op(wire.OpExchangeID, args), &res)
	return res
}

// newClient makes an unconfirmed client and returns its client ID.
func newClient(p *nfs4test.Peer, name string, verifier byte) uint64 {
	p.T.Helper()
	res := exchange(p, exchangeArgs(name, verifier))
	if res.Status != wire.NFS4OK {
		p.T.Fatalf("EXCHANGE_ID %q: %v", name, res.Status)
	}
	return res.ResOK.Clientid
}

var channelAttrs = wire.ChannelAttrs4{
	Maxrequestsize: 8192, Maxresponsesize: 8192, MaxresponsesizeCached: 8192, Maxoperations: 128, Maxrequests: 8,
}

func createArgs(id uint64, sequence uint32) *wire.CreateSession4Args {
	return &wire.CreateSession4Args{Clientid: id, Sequence: sequence, ForeChanAttrs: channelAttrs, BackChanAttrs: channelAttrs, CBProgram: 0x40000000}
}

func create(p *nfs4test.Peer, args *wire.CreateSession4Args) wire.CreateSession4Res {
	p.T.Helper()
	var res wire.CreateSession4Res
	single(p, op(wire.OpCreateSession, args), &res)
	return res
}

// A session is the client's side of a session.
type session struct {
	*nfs4test.Peer
	client uint64
	id     wire.SessionID4
	fore   wire.ChannelAttrs4
	seq    map[uint32]uint32
}

// newSession makes a session of a client by a CREATE_SESSION with a sequence number.
func newSession(p *nfs4test.Peer, client uint64, sequence uint32) *session {
	p.T.Helper()
	return sessionOf(p, createArgs(client, sequence))
}

func sessionOf(p *nfs4test.Peer, args *wire.CreateSession4Args) *session {
	p.T.Helper()
	res := create(p, args)
	if res.Status != wire.NFS4OK {
		p.T.Fatalf("CREATE_SESSION: %v", res.Status)
	}
	return &session{p, args.Clientid, res.ResOK.Sessionid, res.ResOK.ForeChanAttrs, map[uint32]uint32{}}
}

// newClientSession makes a client with a session.
func newClientSession(p *nfs4test.Peer, name string) *session {
	p.T.Helper()
	return newSession(p, newClient(p, name, 1), 1)
}

// sequenceOp returns the next SEQUENCE for a slot.
func (s *session) sequenceOp(slot uint32) *wire.Sequence4Args {
	return &wire.Sequence4Args{Sessionid: s.id, Sequenceid: s.seq[slot] + 1, Slotid: slot, HighestSlotid: slot, Cachethis: true}
}

// run runs operations in slot 0 of the session.
func (s *session) run(ops ...nfs4test.Op) *nfs4test.Result {
	s.T.Helper()
	r := s.with(s.sequenceOp(0), ops...)
	if r.Ops[0].Status == wire.NFS4OK {
		s.seq[0]++
	}
	return r
}

// with runs operations after a SEQUENCE.
func (s *session) with(args *wire.Sequence4Args, ops ...nfs4test.Op) *nfs4test.Result {
	s.T.Helper()
	return s.Compound(append([]nfs4test.Op{op(wire.OpSequence, args)}, ops...)...)
}

func want(t testing.TB, what string, r *nfs4test.Result, status wire.NFSStat4, ops int) {
	t.Helper()
	if r.Status != status || len(r.Ops) != ops {
		t.Errorf("%s: %v after %d operations, not %v after %d", what, r.Status, len(r.Ops), status, ops)
	}
}

func is(t testing.TB, what string, got, want wire.NFSStat4) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, not %v", what, got, want)
	}
}

// putExport returns a PUTFH of the root of the export.
func putExport(s *session) nfs4test.Op {
	return op(wire.OpPutFH, &wire.PutFH4Args{Object: s.Exports.Seal(nil, s.Export, s.FS.Root())})
}
