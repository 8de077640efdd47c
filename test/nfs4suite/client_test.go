package nfs4suite

import (
	"bytes"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

func exchangeArgs(name string, verifier byte) *wire.ExchangeID4Args {
	return &wire.ExchangeID4Args{Clientowner: wire.ClientOwner4{Verifier: wire.Verifier4{verifier}, Ownerid: []byte(name)}}
}

func exchange(p *nfs4test.Peer, args *wire.ExchangeID4Args) (res wire.ExchangeID4Res) {
	p.T.Helper()
	alone(p, op(wire.OpExchangeID, args), &res)
	return res
}

// exchanged makes an EXCHANGE_ID that must succeed.
func exchanged(p *nfs4test.Peer, name string, verifier byte) wire.ExchangeID4ResOK {
	p.T.Helper()
	res := exchange(p, exchangeArgs(name, verifier))
	if res.Status != ok {
		p.T.Fatalf("EXCHANGE_ID %q: %v", name, res.Status)
	}
	return res.ResOK
}

// usual are the channel limits of most tests.
var usual = wire.ChannelAttrs4{
	Maxrequestsize: 64 << 10, Maxresponsesize: 64 << 10, MaxresponsesizeCached: 4 << 10, Maxoperations: 64, Maxrequests: 8,
}

func createArgs(id uint64, sequence uint32) *wire.CreateSession4Args {
	return &wire.CreateSession4Args{Clientid: id, Sequence: sequence, ForeChanAttrs: usual, BackChanAttrs: usual, CBProgram: 0x40000000}
}

func createSession(p *nfs4test.Peer, args *wire.CreateSession4Args) (res wire.CreateSession4Res) {
	p.T.Helper()
	alone(p, op(wire.OpCreateSession, args), &res)
	return res
}

// A session is the client's side of an NFSv4 session.
type session struct {
	*nfs4test.Peer
	t      testing.TB
	client uint64
	id     wire.SessionID4
	fore   wire.ChannelAttrs4
	// last is the sequence number of each slot's latest request.
	last map[uint32]uint32
}

func sessionOf(p *nfs4test.Peer, args *wire.CreateSession4Args) *session {
	p.T.Helper()
	res := createSession(p, args)
	if res.Status != ok {
		p.T.Fatalf("CREATE_SESSION: %v", res.Status)
	}
	return &session{p, p.T, args.Clientid, res.ResOK.Sessionid, res.ResOK.ForeChanAttrs, map[uint32]uint32{}}
}

// newSession creates a client ID and a session, and sends RECLAIM_COMPLETE.
func newSession(t testing.TB, site *nfs4test.Site, minor uint32, name string) *session {
	t.Helper()
	p := site.Peer(minor)
	p.T = t
	return newSessionOf(p, name)
}

// newSessionOf is newSession over an existing connection.
func newSessionOf(p *nfs4test.Peer, name string) *session {
	p.T.Helper()
	s := sessionOf(p, createArgs(exchanged(p, name, 1).Clientid, 1))
	s.want("RECLAIM_COMPLETE", ok, op(wire.OpReclaimComplete, &wire.ReclaimComplete4Args{}))
	return s
}

// over returns the session over another connection.
func (s *session) over(p *nfs4test.Peer) *session {
	other := *s
	other.Peer = p
	return &other
}

// next returns the arguments of the slot's next SEQUENCE.
func (s *session) next(slot uint32) *wire.Sequence4Args {
	return &wire.Sequence4Args{Sessionid: s.id, Sequenceid: s.last[slot] + 1, Slotid: slot, HighestSlotid: slot}
}

// with runs operations after a SEQUENCE.
func (s *session) with(args *wire.Sequence4Args, ops ...nfs4test.Op) *nfs4test.Result {
	s.t.Helper()
	return s.Compound(append([]nfs4test.Op{op(wire.OpSequence, args)}, ops...)...)
}

// do runs operations in slot 0.
func (s *session) do(ops ...nfs4test.Op) *nfs4test.Result {
	s.t.Helper()
	r := s.with(s.next(0), ops...)
	if r.Ops[0].Status == ok {
		s.last[0]++
	}
	return r
}

// want runs operations. The last one must end with the given status, and all before it with
// NFS4_OK. The returned results do not include SEQUENCE.
func (s *session) want(what string, status wire.NFSStat4, ops ...nfs4test.Op) []nfs4test.OpResult {
	s.t.Helper()
	r := s.do(ops...)
	if r.Status != status || len(r.Ops) != len(ops)+1 {
		s.t.Errorf("%s: %v after %d of %d operations, not %v", what, r.Status, len(r.Ops)-1, len(ops), status)
	}
	return append(r.Ops[1:], make([]nfs4test.OpResult, max(0, len(ops)+1-len(r.Ops)))...)
}

// must runs operations that must all succeed. If one fails, must ends the test.
func (s *session) must(what string, ops ...nfs4test.Op) []nfs4test.OpResult {
	s.t.Helper()
	r := s.do(ops...)
	if r.Status != ok {
		s.t.Fatalf("%s: %v after %d of %d operations", what, r.Status, len(r.Ops)-1, len(ops))
	}
	return r.Ops[1:]
}

var (
	putRoot = op(wire.OpPutRootFH)
	getFH   = op(wire.OpGetFH)
	saveFH  = op(wire.OpSaveFH)
)

func putFH(fh []byte) nfs4test.Op { return op(wire.OpPutFH, &wire.PutFH4Args{Object: fh}) }

func lookup(name string) nfs4test.Op {
	return op(wire.OpLookup, &wire.Lookup4Args{Objname: wire.UTF8String(name)})
}

func remove(name string) nfs4test.Op {
	return op(wire.OpRemove, &wire.Remove4Args{Target: wire.UTF8String(name)})
}

// handle returns the file handle in a result of GETFH.
func (s *session) handle(r *nfs4test.OpResult) []byte {
	s.t.Helper()
	var res wire.GetFH4Res
	r.Into(s.t, &res)
	return bytes.Clone(res.ResOK.Object)
}

// find returns the file handle of a path.
func (s *session) find(path ...string) []byte {
	s.t.Helper()
	ops := []nfs4test.Op{putRoot}
	for _, name := range path {
		ops = append(ops, lookup(name))
	}
	r := s.must("LOOKUP", append(ops, getFH)...)
	return s.handle(&r[len(r)-1])
}
