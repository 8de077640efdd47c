package nfs4suite

import (
	"bytes"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

func (s *session) sequenceRes(r *nfs4test.Result) wire.Sequence4ResOK {
	s.t.Helper()
	var res wire.Sequence4Res
	r.Ops[0].Into(s.t, &res)
	return res.ResOK
}

// A SEQUENCE that is refused changes nothing: the next one uses the same sequence ID (RFC 8881
// §18.46).
func TestSequenceRefused(t *testing.T) {
	s := newSession(t, newSite(t, nil, state.Config{}), 1, "client")
	for _, c := range []struct {
		what   string
		change func(a *wire.Sequence4Args)
		want   wire.NFSStat4
	}{
		{"no session", func(a *wire.Sequence4Args) { a.Sessionid = wire.SessionID4{} }, wire.NFS4ErrBadSession},
		{"nearly the session", func(a *wire.Sequence4Args) { a.Sessionid[15] ^= 1 }, wire.NFS4ErrBadSession},
		{"another session's place", func(a *wire.Sequence4Args) { a.Sessionid[7] ^= 1 }, wire.NFS4ErrBadSession},
		{"a slot beyond the last", func(a *wire.Sequence4Args) { a.Slotid, a.HighestSlotid = s.fore.Maxrequests, s.fore.Maxrequests-1 }, wire.NFS4ErrBadSlot},
		{"a slot far beyond", func(a *wire.Sequence4Args) { a.Slotid = 1<<32 - 1 }, wire.NFS4ErrBadSlot},
		{"a highest slot beyond the last", func(a *wire.Sequence4Args) { a.HighestSlotid = s.fore.Maxrequests }, wire.NFS4ErrBadHighSlot},
		{"the sequence after the next", func(a *wire.Sequence4Args) { a.Sequenceid++ }, wire.NFS4ErrSeqMisordered},
		{"the sequence before the last", func(a *wire.Sequence4Args) { a.Sequenceid -= 2 }, wire.NFS4ErrSeqMisordered},
		{"a sequence far away", func(a *wire.Sequence4Args) { a.Sequenceid += 1 << 31 }, wire.NFS4ErrSeqMisordered},
		{"an unused slot's sequence 0", func(a *wire.Sequence4Args) { a.Slotid, a.Sequenceid = 3, 0 }, wire.NFS4ErrSeqMisordered},
		{"an unused slot's sequence 2", func(a *wire.Sequence4Args) { a.Slotid, a.Sequenceid = 3, 2 }, wire.NFS4ErrSeqMisordered},
	} {
		args := s.next(0)
		c.change(args)
		r := s.with(args, putRoot)
		if r.Status != c.want || len(r.Ops) != 1 {
			t.Errorf("%s: %v after %d operations, not %v", c.what, r.Status, len(r.Ops), c.want)
		}
	}
	s.want("the next", ok, putRoot)
	r := s.with(s.next(3))
	is(t, "another slot", r.Status, ok)
	if res := s.sequenceRes(r); res.Slotid != 3 || res.Sequenceid != 1 || res.Sessionid != s.id ||
		res.HighestSlotid >= s.fore.Maxrequests || res.TargetHighestSlotid > res.HighestSlotid {
		t.Errorf("%+v", res)
	}
}

func TestSequenceStandsFirst(t *testing.T) {
	s := newSession(t, newSite(t, nil, state.Config{}), 1, "client")
	s.want("a second SEQUENCE", wire.NFS4ErrSequencePos, op(wire.OpSequence, s.next(1)))
	s.want("SEQUENCE at the end", wire.NFS4ErrSequencePos, putRoot, op(wire.OpSequence, s.next(1)))
	for _, first := range []nfs4test.Op{
		op(wire.OpGetDirDelegation), op(wire.OpLayoutget), op(wire.OpOpenattr), op(wire.OpRenew), op(wire.OpSetClientID), op(wire.OpOpenConfirm),
		putRoot, getFH, getattr(wire.Fattr4Size), op(wire.OpReclaimComplete, words(0)), op(wire.OpTestStateID, words(0)),
		open(openArgs("x", "y", read, 0)), op(wire.OpBackchannelCtl, words(1, 0)), op(wire.OpSaveFH), op(wire.OpFreeStateID, &wire.FreeStateID4Args{}),
	} {
		r := s.Compound(first)
		if r.Status != wire.NFS4ErrOpNotInSession || len(r.Ops) != 1 {
			t.Errorf("%v without SEQUENCE: %v", first.Number, r.Status)
		}
		r = s.Compound(first, op(wire.OpSequence, s.next(0)))
		if r.Status != wire.NFS4ErrOpNotInSession || len(r.Ops) != 1 {
			t.Errorf("%v before SEQUENCE: %v", first.Number, r.Status)
		}
	}
	s.want("BIND_CONN_TO_SESSION behind SEQUENCE", wire.NFS4ErrNotOnlyOp,
		op(wire.OpBindConnToSession, &wire.BindConnToSession4Args{Sessid: s.id, Dir: wire.Cdfc4Fore}))
	r := s.Compound()
	if r.Status != ok || len(r.Ops) != 0 {
		t.Errorf("no operations: %v", r.Status)
	}
	r = s.Compound(op(wire.OpIllegal))
	if r.Status != wire.NFS4ErrOpIllegal || len(r.Ops) != 1 || r.Ops[0].Number != wire.OpIllegal {
		t.Errorf("ILLEGAL alone: %+v", r)
	}
	for _, n := range []wire.OpNum{0, 1, 2, 76, 1000, 1<<31 - 1, -1} {
		r := s.do(putRoot, op(n))
		if r.Status != wire.NFS4ErrOpIllegal || len(r.Ops) != 3 || r.Ops[2].Number != wire.OpIllegal {
			t.Errorf("operation %d: %+v", n, r)
		}
	}
}

// The server refuses operations that later minor versions dropped, operations of a later minor
// version, and operations that it does not implement.
func TestOperationsOfOtherVersions(t *testing.T) {
	site := newSite(t, nil, state.Config{})
	s := newSession(t, site, 1, "client")
	for _, n := range []wire.OpNum{wire.OpOpenConfirm, wire.OpRenew, wire.OpSetClientID, wire.OpSetClientIDConfirm, wire.OpReleaseLockOwner} {
		s.want(n.String(), wire.NFS4ErrNotSupp, putRoot, op(n))
	}
	for _, n := range []wire.OpNum{wire.OpGetDirDelegation, wire.OpGetdeviceinfo, wire.OpGetdevicelist, wire.OpLayoutcommit, wire.OpLayoutget,
		wire.OpLayoutreturn, wire.OpWantDelegation, wire.OpOpenattr} {
		s.want(n.String(), wire.NFS4ErrNotSupp, putRoot, op(n))
	}
	s.want("ALLOCATE in 4.1", wire.NFS4ErrOpIllegal, putRoot, op(wire.OpAllocate))
	for _, minor := range []uint32{3, 77, 1<<32 - 1} {
		p := site.Peer(minor)
		if r := p.Compound(putRoot); r.Status != wire.NFS4ErrMinorVersMismatch || len(r.Ops) != 0 {
			t.Errorf("minor version %d: %+v", minor, r)
		}
	}
}

// A repeated request gets the same reply if the client asked the server to cache it.
func TestSequenceReplayed(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		args := s.next(2)
		args.Cachethis = true
		ops := []nfs4test.Op{op(wire.OpSequence, args), putRoot, create(wire.NF4Dir, "dir"), getFH, getattr(wire.Fattr4Change)}
		first := s.End(s.Begin(s.Message("tag", ops...)))
		if r := s.Parse(first); r.Status != ok {
			t.Fatal(r.Status)
		}
		again := s.End(s.Begin(s.Message("tag", ops...)))
		if r := s.Parse(again); r.Status != ok || !bytes.Equal(first.Reply[4:], again.Reply[4:]) {
			t.Errorf("replayed: %v, %x, not %x", r.Status, again.Reply, first.Reply)
		}
		// Replies with errors are replayed too.
		s.last[2]++
		args = s.next(2)
		args.Cachethis = true
		for range 2 {
			if r := s.with(args, putRoot, create(wire.NF4Dir, "dir")); r.Status != wire.NFS4ErrExist || len(r.Ops) != 3 {
				t.Errorf("a failure: %v", r.Status)
			}
		}
		is(t, "what a replay did", s.with(s.next(1), putRoot, remove("dir")).Status, ok)
		if r := s.with(args, putRoot, create(wire.NF4Dir, "dir")); r.Status != wire.NFS4ErrExist {
			t.Errorf("a failure that would succeed now: %v", r.Status)
		}
	})
}

// The server does not execute a repeated request whose reply it has not cached.
func TestSequenceReplayedUncached(t *testing.T) {
	s := newSession(t, newSite(t, nil, state.Config{}), 1, "client")
	args := s.next(1)
	for range 2 {
		if r := s.with(args); r.Status != ok || len(r.Ops) != 1 {
			t.Errorf("SEQUENCE alone: %v", r.Status)
		}
	}
	s.last[1]++
	args = s.next(1)
	long := lookup(strings.Repeat("x", 255))
	is(t, "uncached", s.with(args, putRoot, getFH, long).Status, wire.NFS4ErrNoEnt)
	r := s.with(args, putRoot, getFH, long)
	if r.Status != wire.NFS4ErrRetryUncachedRep || len(r.Ops) != 2 {
		t.Errorf("again: %v after %d operations", r.Status, len(r.Ops))
	}
	s.last[1]++
	is(t, "the slot goes on", s.with(s.next(1), putRoot).Status, ok)
}

// A different request with the same sequence ID is not a repetition, and is refused.
func TestSequenceFalseRetry(t *testing.T) {
	s := newSession(t, newSite(t, nil, state.Config{}), 1, "client")
	args := s.next(1)
	args.Cachethis = true
	is(t, "first", s.with(args, putRoot, create(wire.NF4Dir, "dir"), getFH).Status, ok)
	for _, ops := range [][]nfs4test.Op{
		{}, {putRoot}, {putRoot, create(wire.NF4Dir, "dir"), getFH, getFH}, {putRoot, create(wire.NF4Dir, "dis"), getFH},
		{putRoot, create(wire.NF4Fifo, "dir"), getFH}, {putRoot, remove("dir"), getFH},
	} {
		if r := s.with(args, ops...); r.Status != wire.NFS4ErrSeqFalseRetry || len(r.Ops) != 1 {
			t.Errorf("%d operations: %v", len(ops), r.Status)
		}
	}
	s.UID = 7
	is(t, "another caller", s.with(args, putRoot, create(wire.NF4Dir, "dir"), getFH).Status, wire.NFS4ErrSeqFalseRetry)
	s.UID = 0
	is(t, "the same", s.with(args, putRoot, create(wire.NF4Dir, "dir"), getFH).Status, ok)
}

// The server enforces the session's limits on the sizes of requests and replies.
func TestSessionLimits(t *testing.T) {
	site := newSite(t, nil, state.Config{})
	maker := newSession(t, site, 1, "maker")
	maker.makeFile("file")
	p := site.Peer(1)
	id := exchanged(p, "client", 1)
	args := createArgs(id.Clientid, 1)
	args.ForeChanAttrs.Maxoperations = 4
	args.ForeChanAttrs.Maxrequestsize = 600
	args.ForeChanAttrs.Maxresponsesize = 700
	args.ForeChanAttrs.MaxresponsesizeCached = 300
	s := sessionOf(p, args)
	s.t = t

	s.want("as many operations as may be", ok, putRoot, getFH, getFH)
	seq := s.next(0)
	if r := s.with(seq, putRoot, getFH, getFH, getFH); r.Status != wire.NFS4ErrTooManyOps || len(r.Ops) != 1 {
		t.Errorf("one operation more: %v after %d", r.Status, len(r.Ops))
	}
	for tag := 0; tag < 600; tag += 4 {
		args := s.next(0)
		m := s.Message(strings.Repeat("x", tag), op(wire.OpSequence, args), putRoot)
		r := s.Parse(s.End(s.Begin(m)))
		switch {
		case len(m) > 600 && (r.Status != wire.NFS4ErrReqTooBig || len(r.Ops) != 1):
			t.Fatalf("a request of %d bytes: %v", len(m), r.Status)
		case len(m) <= 600 && r.Status == wire.NFS4ErrReqTooBig:
			t.Fatalf("a request of %d bytes: %v", len(m), r.Status)
		}
		if r.Ops[0].Status == ok {
			s.last[0]++
		}
	}
	// A reply with all these attributes is too large.
	all := wire.Bits(0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 19, 20, 21, 22, 23, 26, 27, 28, 29, 30, 33, 35, 36, 37, 42, 43, 44, 45, 47, 51, 52, 53)
	some := op(wire.OpGetattr, &wire.Getattr4Args{AttrRequest: all})
	small := getattr(wire.Fattr4Filehandle)
	for _, cache := range []bool{false, true} {
		limit, want := 700, wire.NFS4ErrRepTooBig
		if cache {
			limit, want = 300, wire.NFS4ErrRepTooBigToCache
		}
		seen := map[wire.NFSStat4]int{}
		for tag := 0; tag < 500; tag += 4 {
			for _, ops := range [][]nfs4test.Op{
				{putRoot, some}, {putRoot, some, small}, {putRoot, small, small},
				{putRoot, op(wire.OpReaddir, &wire.Readdir4Args{Maxcount: 4096, Dircount: 4096, AttrRequest: all})},
				{putRoot, lookup("file"), readOp(anonymous, 0, 4096)},
				{putRoot, create(wire.NF4Dir, "d"), getFH}, {putRoot, remove("d")},
				{putRoot, op(wire.OpSecInfoNoName, words(0))},
				{op(wire.OpTestStateID, testArgs(make([]wire.StateID4, 3)...))},
			} {
				args := s.next(0)
				args.Cachethis = cache
				m := s.Message(strings.Repeat("x", tag), append([]nfs4test.Op{op(wire.OpSequence, args)}, ops...)...)
				if len(m) > 600 {
					continue
				}
				c := s.End(s.Begin(m))
				r := s.Parse(c)
				if r.Ops[0].Status == ok {
					s.last[0]++
				}
				seen[r.Status]++
				if len(c.Reply) > limit && r.Ops[0].Status == ok {
					t.Fatalf("cache %v: a reply of %d bytes: %v of %v", cache, len(c.Reply), r.Status, r.Ops[len(r.Ops)-1].Number)
				}
				if r.Status != ok && r.Status != want && r.Status != wire.NFS4ErrExist && r.Status != wire.NFS4ErrNoEnt {
					t.Fatalf("cache %v: %v of %v", cache, r.Status, r.Ops[len(r.Ops)-1].Number)
				}
			}
		}
		if seen[ok] == 0 || seen[want] == 0 {
			t.Errorf("cache %v: %v", cache, seen)
		}
	}
	if maker.find() == nil {
		t.Error("no root")
	}
}

func testArgs(ids ...wire.StateID4) raw {
	b := words(uint32(len(ids)))
	for i := range ids {
		b = append(b, encoded(&ids[i])...)
	}
	return b
}

// All connections of a session are equivalent. A BIND_CONN_TO_SESSION, or any request of the
// session, associates a connection with it (RFC 8881 §2.10.3.1, §18.34).
func TestConnectionsOfASession(t *testing.T) {
	site := newSite(t, nil, state.Config{})
	s := newSession(t, site, 1, "client")
	bind := func(p *nfs4test.Peer, id wire.SessionID4, dir wire.ChannelDirFromClient4) (res wire.BindConnToSession4Res) {
		alone(p, op(wire.OpBindConnToSession, &wire.BindConnToSession4Args{Sessid: id, Dir: dir}), &res)
		return res
	}
	q := site.Peer(1)
	is(t, "no session", bind(q, wire.SessionID4{1}, wire.Cdfc4Fore).Status, wire.NFS4ErrBadSession)
	is(t, "DESTROY_SESSION over a connection that was not bound", alone(q, destroySession(s.id), nil), wire.NFS4ErrConnNotBoundToSession)
	for range 2 {
		if res := bind(q, s.id, wire.Cdfc4Fore); res.Status != ok || res.ResOK.Sessid != s.id || res.ResOK.Dir != wire.Cdfs4Fore {
			t.Errorf("bound: %+v", res)
		}
	}
	is(t, "a direction that there is not", alone(q, op(wire.OpBindConnToSession, append(encoded(&s.id), words(4, 0)...)), nil), wire.NFS4ErrBadXDR)
	r := q.Compound(op(wire.OpBindConnToSession, &wire.BindConnToSession4Args{Sessid: s.id, Dir: wire.Cdfc4Fore}), putRoot)
	is(t, "with another operation", r.Status, wire.NFS4ErrNotOnlyOp)

	// Use the same slot over both connections.
	other := s.over(q)
	args := s.next(1)
	args.Cachethis = true
	is(t, "over the first", s.with(args, putRoot, create(wire.NF4Dir, "dir")).Status, ok)
	is(t, "again over the second", other.with(args, putRoot, create(wire.NF4Dir, "dir")).Status, ok)
	s.last[1]++
	is(t, "the next over the second", other.with(other.next(1), putRoot, lookup("dir")).Status, ok)
	is(t, "DESTROY_SESSION over the second", alone(q, destroySession(s.id), nil), ok)
	is(t, "SEQUENCE over the first", s.do().Status, wire.NFS4ErrBadSession)
	is(t, "BIND_CONN_TO_SESSION of a session that is no more", bind(q, s.id, wire.Cdfc4Fore).Status, wire.NFS4ErrBadSession)
}

func TestTagsAreGivenBack(t *testing.T) {
	s := newSession(t, newSite(t, nil, state.Config{}), 1, "client")
	for _, tag := range []string{"", "a", "tag", strings.Repeat("x", 1000), "Grüße"} {
		r := s.Parse(s.End(s.Begin(s.Message(tag, op(wire.OpSequence, s.next(0)), putRoot))))
		s.last[0]++
		if r.Tag != tag || r.Status != ok {
			t.Errorf("tag %q: %q, %v", tag, r.Tag, r.Status)
		}
	}
	r := s.Parse(s.End(s.Begin(s.Message("\xff", op(wire.OpSequence, s.next(0)), putRoot))))
	if r.Status != wire.NFS4ErrInvalid || len(r.Ops) != 0 {
		t.Errorf("a tag that is no UTF-8: %v after %d operations", r.Status, len(r.Ops))
	}
}
