package nfs41

import (
	"bytes"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

func TestSequenceErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(a *wire.Sequence4Args)
		ops    int // number of operations after SEQUENCE
		want   wire.NFSStat4
	}{
		{"as it should be", func(*wire.Sequence4Args) {}, 1, wire.NFS4OK},
		{"no session", func(a *wire.Sequence4Args) { a.Sessionid[15]++ }, 1, wire.NFS4ErrBadSession},
		{"a place that there is not", func(a *wire.Sequence4Args) { a.Sessionid[4] = 0xff }, 1, wire.NFS4ErrBadSession},
		{"a place that is empty", func(a *wire.Sequence4Args) { a.Sessionid[7]++ }, 1, wire.NFS4ErrBadSession},
		{"a chunk that is empty", func(a *wire.Sequence4Args) { a.Sessionid[6]++ }, 1, wire.NFS4ErrBadSession},
		{"no such slot", func(a *wire.Sequence4Args) { a.Slotid, a.HighestSlotid = 8, 8 }, 1, wire.NFS4ErrBadSlot},
		{"no such highest slot", func(a *wire.Sequence4Args) { a.HighestSlotid = 8 }, 1, wire.NFS4ErrBadHighSlot},
		{"sequence 0 at first", func(a *wire.Sequence4Args) { a.Sequenceid = 0 }, 1, wire.NFS4ErrSeqMisordered},
		{"sequence 2 at first", func(a *wire.Sequence4Args) { a.Sequenceid = 2 }, 1, wire.NFS4ErrSeqMisordered},
		{"the last slot", func(a *wire.Sequence4Args) { a.Slotid, a.HighestSlotid = 7, 7 }, 1, wire.NFS4OK},
		{"as many operations as may be", func(*wire.Sequence4Args) {}, 7, wire.NFS4OK},
		{"one operation too many", func(*wire.Sequence4Args) {}, 8, wire.NFS4ErrTooManyOps},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := peer(t)
			args := createArgs(newClient(p, "client", 1), 1)
			args.ForeChanAttrs.Maxoperations = 8
			s := sessionOf(p, args)
			seq := s.sequenceOp(0)
			c.change(seq)
			ops := make([]nfs4test.Op, c.ops)
			for i := range ops {
				ops[i] = rootOp
			}
			r := s.with(seq, ops...)
			if c.want != wire.NFS4OK {
				want(t, "compound", r, c.want, 1)
				want(t, "the slot is as it was", s.run(rootOp), wire.NFS4OK, 2)
				return
			}
			want(t, "compound", r, wire.NFS4OK, c.ops+1)
			var res wire.Sequence4Res
			r.Ops[0].Into(t, &res)
			if v := res.ResOK; v.Sessionid != s.id || v.Slotid != seq.Slotid || v.Sequenceid != 1 || v.HighestSlotid != 7 || v.TargetHighestSlotid != 7 || v.StatusFlags != 0 {
				t.Errorf("%+v", v)
			}
		})
	}
}

// Each operation is allowed only at certain positions in a compound (RFC 8881 §18.46.3 and the
// section of each operation).
func TestPositions(t *testing.T) {
	destroyClient := op(wire.OpDestroyClientID, &wire.DestroyClientID4Args{})
	for _, c := range []struct {
		name    string
		session bool
		ops     func(s *session) []nfs4test.Op
		want    wire.NFSStat4
		n       int
	}{
		{"no session", false, func(*session) []nfs4test.Op { return []nfs4test.Op{rootOp} }, wire.NFS4ErrOpNotInSession, 1},
		{"no session, RECLAIM_COMPLETE", false, func(*session) []nfs4test.Op {
			return []nfs4test.Op{op(wire.OpReclaimComplete, &wire.ReclaimComplete4Args{})}
		}, wire.NFS4ErrOpNotInSession, 1},
		{"no session, BACKCHANNEL_CTL", false, func(*session) []nfs4test.Op {
			return []nfs4test.Op{op(wire.OpBackchannelCtl, &wire.BackchannelCtl4Args{})}
		}, wire.NFS4ErrOpNotInSession, 1},
		{"no session, SET_SSV", false, func(*session) []nfs4test.Op {
			return []nfs4test.Op{op(wire.OpSetSSV, &wire.SetSsv4Args{})}
		}, wire.NFS4ErrOpNotInSession, 1},
		{"SEQUENCE within", true, func(s *session) []nfs4test.Op {
			return []nfs4test.Op{rootOp, op(wire.OpSequence, s.sequenceOp(1))}
		}, wire.NFS4ErrSequencePos, 3},
		{"EXCHANGE_ID with others", false, func(*session) []nfs4test.Op {
			return []nfs4test.Op{op(wire.OpExchangeID, exchangeArgs("x", 1)), rootOp}
		}, wire.NFS4ErrNotOnlyOp, 1},
		{"EXCHANGE_ID within a session", true, func(*session) []nfs4test.Op {
			return []nfs4test.Op{op(wire.OpExchangeID, exchangeArgs("x", 1)), rootOp}
		}, wire.NFS4OK, 3},
		{"CREATE_SESSION with others", false, func(s *session) []nfs4test.Op {
			return []nfs4test.Op{op(wire.OpCreateSession, createArgs(s.client, 2)), rootOp}
		}, wire.NFS4ErrNotOnlyOp, 1},
		{"DESTROY_SESSION with others", false, func(s *session) []nfs4test.Op {
			return []nfs4test.Op{op(wire.OpDestroySession, &wire.DestroySession4Args{Sessionid: s.id}), rootOp}
		}, wire.NFS4ErrNotOnlyOp, 1},
		{"DESTROY_SESSION of its own session, not last", true, func(s *session) []nfs4test.Op {
			return []nfs4test.Op{op(wire.OpDestroySession, &wire.DestroySession4Args{Sessionid: s.id}), rootOp}
		}, wire.NFS4ErrNotOnlyOp, 2},
		{"DESTROY_SESSION of its own session, last", true, func(s *session) []nfs4test.Op {
			return []nfs4test.Op{rootOp, op(wire.OpDestroySession, &wire.DestroySession4Args{Sessionid: s.id})}
		}, wire.NFS4OK, 3},
		{"DESTROY_CLIENTID with others", false, func(*session) []nfs4test.Op {
			return []nfs4test.Op{destroyClient, rootOp}
		}, wire.NFS4ErrNotOnlyOp, 1},
		{"DESTROY_CLIENTID of no client, within a session", true, func(*session) []nfs4test.Op {
			return []nfs4test.Op{destroyClient}
		}, wire.NFS4ErrStaleClientID, 2},
		{"DESTROY_CLIENTID of its own client", true, func(s *session) []nfs4test.Op {
			return []nfs4test.Op{op(wire.OpDestroyClientID, &wire.DestroyClientID4Args{Clientid: s.client})}
		}, wire.NFS4ErrClientIDBusy, 2},
		{"BIND_CONN_TO_SESSION with others", false, func(s *session) []nfs4test.Op {
			return []nfs4test.Op{op(wire.OpBindConnToSession, &wire.BindConnToSession4Args{Sessid: s.id, Dir: wire.Cdfc4Fore}), rootOp}
		}, wire.NFS4ErrNotOnlyOp, 1},
		{"BIND_CONN_TO_SESSION within a session", true, func(s *session) []nfs4test.Op {
			return []nfs4test.Op{op(wire.OpBindConnToSession, &wire.BindConnToSession4Args{Sessid: s.id, Dir: wire.Cdfc4Fore})}
		}, wire.NFS4ErrNotOnlyOp, 2},
		{"SET_SSV without SP4_SSV", true, func(*session) []nfs4test.Op {
			return []nfs4test.Op{op(wire.OpSetSSV, &wire.SetSsv4Args{})}
		}, wire.NFS4ErrInvalid, 2},
		{"nothing", false, func(*session) []nfs4test.Op { return nil }, wire.NFS4OK, 0},
		{"no operation at all", true, func(*session) []nfs4test.Op { return []nfs4test.Op{op(2)} }, wire.NFS4ErrOpIllegal, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newClientSession(peer(t), "client")
			if c.session {
				want(t, "compound", s.run(c.ops(s)...), c.want, c.n)
			} else {
				want(t, "compound", s.Compound(c.ops(s)...), c.want, c.n)
			}
		})
	}
}

func TestReclaimComplete(t *testing.T) {
	s := newClientSession(peer(t), "client")
	global, one := op(wire.OpReclaimComplete, &wire.ReclaimComplete4Args{}), op(wire.OpReclaimComplete, &wire.ReclaimComplete4Args{OneFs: true})
	want(t, "of a file system, without one", s.run(one), wire.NFS4ErrNoFileHandle, 2)
	want(t, "of a file system", s.run(rootOp, one), wire.NFS4OK, 3)
	want(t, "of all", s.run(global), wire.NFS4OK, 2)
	want(t, "of all, again", s.run(global), wire.NFS4ErrCompleteAlready, 2)
	want(t, "of a file system, again", s.run(rootOp, one), wire.NFS4OK, 3)
}

// replay sends a message over a connection, and returns the encoded results.
func replay(p *nfs4test.Peer, message []byte) []byte {
	p.T.Helper()
	d, err := p.End(p.Begin(bytes.Clone(message))).Results()
	if err != nil {
		p.T.Fatal(err)
	}
	return bytes.Clone(d.Rest())
}

func lookup(name string) nfs4test.Op {
	return op(wire.OpLookup, &wire.Lookup4Args{Objname: []byte(name)})
}

// A repeated request gets exactly the bytes of the first reply, over any connection, and the server
// does not execute it again.
func TestReplays(t *testing.T) {
	rename := []nfs4test.Op{op(wire.OpExchangeID, exchangeArgs("replayed", 1))} // makes another client each time
	for _, c := range []struct {
		name  string
		ops   []nfs4test.Op
		cache bool
		same  bool
	}{
		{"SEQUENCE alone", nil, true, true},
		{"SEQUENCE alone, not to be kept", nil, false, true},
		{"idempotent", []nfs4test.Op{rootOp, op(wire.OpGetFH)}, true, true},
		{"not idempotent", rename, true, true},
		{"not idempotent, not to be kept", rename, false, true},
		{"a failure", []nfs4test.Op{rootOp, lookup("")}, true, true},
		{"no operation", []nfs4test.Op{op(2)}, true, true},
		{"idempotent, not to be kept", []nfs4test.Op{rootOp, op(wire.OpGetFH)}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			site, _ := site(t, Config{}, state.Config{})
			p := site.Peer(1)
			s := newClientSession(p, "client")
			seq := s.sequenceOp(0)
			seq.Cachethis = c.cache
			ops := append([]nfs4test.Op{op(wire.OpSequence, seq)}, c.ops...)
			first := replay(p, p.Message("tag", ops...))
			for range 3 {
				p := site.Peer(1) // another connection, another XID
				if c.same {
					if again := replay(p, p.Message("tag", ops...)); !bytes.Equal(again, first) {
						t.Errorf("%x\nthen %x", first, again)
					}
					continue
				}
				want(t, "again", p.Compound(ops...), wire.NFS4ErrRetryUncachedRep, 2)
			}
			s.seq[0]++
			want(t, "the next", s.run(rootOp), wire.NFS4OK, 2)
			if c.same {
				want(t, "the one before", p.Compound(ops...), wire.NFS4ErrSeqMisordered, 1)
			}
		})
	}
}

// A request that differs from the first one with the same sequence number, or is another
// principal's, does not get the stored reply.
func TestFalseRetries(t *testing.T) {
	site, _ := site(t, Config{}, state.Config{})
	p := site.Peer(1)
	for name, cache := range map[string]bool{"kept": true, "not kept": false} {
		s := newClientSession(p, name)
		seq := s.sequenceOp(0)
		seq.Cachethis = cache
		want(t, "the first", s.with(seq, rootOp, op(wire.OpGetFH)), wire.NFS4OK, 3)
		want(t, "other operations", s.with(seq, rootOp), wire.NFS4ErrSeqFalseRetry, 1)
		want(t, "other arguments", s.with(seq, rootOp, lookup("x")), wire.NFS4ErrSeqFalseRetry, 1)
		other := site.Peer(1)
		other.UID = 1000
		want(t, "another user", other.Compound(op(wire.OpSequence, seq), rootOp, op(wire.OpGetFH)), wire.NFS4ErrSeqFalseRetry, 1)
	}
}

// After the largest sequence number of a slot comes 0.
func TestSequenceWraps(t *testing.T) {
	site, m := site(t, Config{}, state.Config{})
	s := newClientSession(site.Peer(1), "client")
	want(t, "the first", s.run(rootOp), wire.NFS4OK, 2)
	m.sessions.find(&s.id).slots[0].Load().sequence = 1<<32 - 2
	s.seq[0] = 1<<32 - 2
	for range 3 {
		want(t, "around the end", s.run(rootOp), wire.NFS4OK, 2)
	}
	if s.seq[0] != 1 {
		t.Fatal(s.seq[0])
	}
}

// The server checks the size limits of the session before it executes anything.
func TestSizes(t *testing.T) {
	site, _ := site(t, Config{}, state.Config{})
	p := site.Peer(1)
	args := createArgs(newClient(p, "client", 1), 1)
	args.ForeChanAttrs.Maxrequestsize = 512
	s := sessionOf(p, args)
	want(t, "a request too big", s.run(rootOp, lookup(string(make([]byte, 500)))), wire.NFS4ErrReqTooBig, 1)
	want(t, "one that is not", s.run(rootOp), wire.NFS4OK, 2)

	args = createArgs(s.client, 2)
	args.ForeChanAttrs.MaxresponsesizeCached = 10
	s = sessionOf(p, args)
	want(t, "too big to be kept", s.run(), wire.NFS4ErrRepTooBigToCache, 1)
	seq := s.sequenceOp(0)
	seq.Cachethis = false
	want(t, "not to be kept", s.with(seq, rootOp), wire.NFS4OK, 2)

	args = createArgs(s.client, 3)
	args.ForeChanAttrs.Maxresponsesize = 400
	s = sessionOf(p, args)
	var ops []nfs4test.Op
	for range 20 {
		ops = append(ops, rootOp, op(wire.OpGetFH))
	}
	seq = s.sequenceOp(0)
	c := p.End(p.Begin(p.Message("", append([]nfs4test.Op{op(wire.OpSequence, seq)}, ops...)...)))
	r := p.Parse(c)
	if r.Status != wire.NFS4ErrRepTooBig || len(r.Ops) < 3 || len(c.Reply) > 400 {
		t.Errorf("%v after %d operations in %d bytes", r.Status, len(r.Ops), len(c.Reply))
	}
	again := replay(p, p.Message("", append([]nfs4test.Op{op(wire.OpSequence, seq)}, ops...)...))
	if d, _ := c.Results(); !bytes.Equal(again, d.Rest()) {
		t.Error("what was too big is answered in another way when it comes again")
	}

	args = createArgs(s.client, 4)
	args.ForeChanAttrs.MaxresponsesizeCached = 300
	s = sessionOf(p, args)
	r = s.run(ops...)
	if r.Status != wire.NFS4ErrRepTooBigToCache || len(r.Ops) < 3 {
		t.Errorf("%v after %d operations", r.Status, len(r.Ops))
	}
}

// An operation that must not run twice does not begin if its result may not fit into the reply.
func TestRoomIsAskedForFirst(t *testing.T) {
	site, m := site(t, Config{}, state.Config{})
	p := site.Peer(1)
	args := createArgs(newClient(p, "client", 1), 1)
	args.ForeChanAttrs.Maxresponsesize = 500
	s := sessionOf(p, args)
	want(t, "EXCHANGE_ID in a small reply", s.run(op(wire.OpExchangeID, exchangeArgs("other", 1))), wire.NFS4ErrRepTooBig, 2)
	if x := m.state.ExchangeID(&state.Identity{Owner: []byte("other")}, true); x.Verdict != state.NotFound {
		t.Error("the operation was done")
	}
}

// A SEQUENCE that is cut off changes no slot.
func TestSequenceThatIsCutOff(t *testing.T) {
	p := peer(t)
	s := newClientSession(p, "client")
	r := p.Parse(p.End(p.Begin(p.Raw(func(w *xdr.Writer) {
		w.Opaque(nil)
		w.Uint32(1)
		w.Uint32(1)
		w.Uint32(uint32(wire.OpSequence))
		w.FixedOpaque(s.id[:])
		w.Uint32(1)
	}))))
	want(t, "cut off", r, wire.NFS4ErrBadXDR, 1)
	want(t, "the next", s.run(rootOp), wire.NFS4OK, 2)
}

// If the transport has little room for the reply, the compound ends early, but the call
// succeeds.
func TestRoomOfTheTransport(t *testing.T) {
	p := peer(t)
	s := newClientSession(p, "client")
	p.Room = rpctest.TCPRoom
	p.Room.Inline = 1200
	var ops []nfs4test.Op
	for range 60 {
		ops = append(ops, rootOp, op(wire.OpGetFH))
	}
	r := s.run(ops...)
	if r.Status != wire.NFS4ErrRepTooBig || len(r.Ops) < 10 {
		t.Errorf("%v after %d operations", r.Status, len(r.Ops))
	}
	p.Room = rpctest.TCPRoom
	want(t, "the next", s.run(rootOp), wire.NFS4OK, 2)
}
