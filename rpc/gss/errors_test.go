package gss_test

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss/gsstest"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
)

// A call with a wrong header gets the answer of RFC 2203 §5.3.3.3 for the fault.
func TestHeadersThatAreRefused(t *testing.T) {
	s := newSite(t, gss.Config{})
	r := s.establish(s.wire(), s.mech)
	with := func(change func(h *header)) header {
		h := r.data(1, 1)
		change(&h)
		return h
	}
	for _, c := range []struct {
		name   string
		header header
		want   rpc.AuthStat
		count  gss.Reason
	}{
		{"no version", with(func(h *header) { h.body = []byte{0, 0, 0} }), rpc.AuthBadCred, gss.BadCredential},
		{"no credential", with(func(h *header) { h.body = []byte{} }), rpc.AuthBadCred, gss.BadCredential},
		{"a credential that ends early", with(func(h *header) { h.body = []byte{0, 0, 0, 1, 0, 0, 0, 0} }), rpc.AuthBadCred, gss.BadCredential},
		{"a credential with more behind it", with(func(h *header) {
			h.body = append(words(1, 0, 1, 1, 16), append(bytes.Clone(r.handle), 0, 0, 0, 0)...)
		}), rpc.AuthBadCred, gss.BadCredential},
		{"version 0", with(func(h *header) { h.version, h.handle = 0, nil }), rpc.AuthRejectedCred, gss.OtherVersion},
		{"version 2, without a context", with(func(h *header) { h.version, h.proc, h.handle = 2, procInit, nil }), rpc.AuthRejectedCred, gss.OtherVersion},
		{"version 3, in a form that is not known", with(func(h *header) { h.body = words(3, 9) }), rpc.AuthRejectedCred, gss.OtherVersion},
		{"version 2, of a context of version 1", with(func(h *header) { h.version = 2 }), rpc.AuthBadCred, gss.OtherVersion},
		{"service 0", with(func(h *header) { h.service = 0 }), rpc.AuthBadCred, gss.BadCredential},
		{"service 4, which is of version 2", with(func(h *header) { h.service = 4 }), rpc.AuthBadCred, gss.BadCredential},
		{"procedure 4, which is of version 2", with(func(h *header) { h.proc = 4 }), rpc.AuthBadCred, gss.BadCredential},
		{"no handle", with(func(h *header) { h.handle = nil }), rpc.GSSCredProblem, gss.UnknownHandle},
		{"a handle of another length", with(func(h *header) { h.handle = h.handle[:8] }), rpc.GSSCredProblem, gss.UnknownHandle},
		{"a handle of a former life", with(func(h *header) { h.handle = append(bytes.Clone(h.handle[:15]), h.handle[15]^1) }), rpc.GSSCredProblem, gss.UnknownHandle},
		{"a handle of a place that was not used", with(func(h *header) { h.handle = append(words(5000), h.handle[4:]...) }), rpc.GSSCredProblem, gss.UnknownHandle},
		{"a handle of a place that is not there", with(func(h *header) { h.handle = append(words(1<<31), h.handle[4:]...) }), rpc.GSSCredProblem, gss.UnknownHandle},
		{"no checksum", with(func(h *header) { h.verifier = []byte{} }), rpc.GSSCredProblem, gss.BadHeader},
		{"a wrong checksum", with(func(h *header) { h.verifier = make([]byte, 30) }), rpc.GSSCredProblem, gss.BadHeader},
		{"a long checksum", with(func(h *header) { h.verifier = make([]byte, 400) }), rpc.GSSCredProblem, gss.BadHeader},
		{"a verifier of AUTH_NONE", with(func(h *header) { h.flavor = rpc.AuthNone }), rpc.GSSCredProblem, gss.BadHeader},
		{"a number above MAXSEQ", with(func(h *header) { h.seq = 0x80000001 }), rpc.GSSCtxProblem, gss.SeqExhausted},
		{"the greatest number", with(func(h *header) { h.seq = 1<<32 - 1 }), rpc.GSSCtxProblem, gss.SeqExhausted},
		{"DESTROY of another procedure than NULL", with(func(h *header) { h.proc = procDestroy }), rpc.AuthBadCred, gss.BadCredential},
		{"DESTROY with a wrong checksum", with(func(h *header) { h.proc, h.procedure, h.verifier = procDestroy, 0, make([]byte, 30) }), rpc.GSSCredProblem, gss.BadHeader},
		{"INIT of another procedure than NULL", with(func(h *header) { h.proc = procInit }), rpc.AuthBadCred, gss.BadCredential},
		{"CONTINUE_INIT of another procedure than NULL", with(func(h *header) { h.proc = procContinue }), rpc.AuthBadCred, gss.BadCredential},
	} {
		before := s.refused(c.count)
		if err := answer(r.call(r.ctx, c.header, put(tag))); !denied(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if n := s.refused(c.count) - before; n != 1 {
			t.Errorf("%s: counted %d times as %v", c.name, n, c.count)
		}
	}
	if n := s.program.Served[rpctest.BUMP].Load(); n != 0 {
		t.Errorf("%d calls were executed", n)
	}
	// After these calls, the context is still usable, and no sequence number was used up.
	for _, seq := range []uint32{1, 0x80000000} {
		if err := answer(r.call(r.ctx, r.data(seq, 1), put(tag))); err != nil {
			t.Errorf("a good call, number %#x: %v", seq, err)
		}
	}
}

// A call that makes a context must have no verifier (RFC 2203 §5.2.2).
func TestVerifierOfInit(t *testing.T) {
	s := newSite(t, gss.Config{})
	for _, h := range []header{
		{version: 1, proc: procInit, verifier: []byte{}, flavor: rpc.AuthGSS},
		{version: 1, proc: procInit, verifier: []byte{1, 2, 3, 4}, flavor: rpc.AuthNone},
	} {
		if err := answer(s.wire().call(nil, h, put(words(0)))); !denied(err, rpc.AuthBadVerf) {
			t.Errorf("%+v: %v", h, err)
		}
	}
}

// A call with wrong arguments gets GARBAGE_ARGS with a verifier, and is not executed.
func TestBodiesThatAreRefused(t *testing.T) {
	s := newSite(t, gss.Config{})
	r := s.establish(s.wire(), s.mech)
	other := s.establish(s.wire(), s.mech)
	seq := uint32(0)
	for _, c := range []struct {
		name    string
		service uint32
		args    func(seq uint32) []byte
	}{
		{"plain, integrity", 2, func(uint32) []byte { return tag }},
		{"plain, privacy", 3, func(uint32) []byte { return tag }},
		{"nothing, integrity", 2, func(uint32) []byte { return nil }},
		{"nothing, privacy", 3, func(uint32) []byte { return nil }},
		{"another number inside, integrity", 2, func(n uint32) []byte { return signed(r.ctx, n+1, tag) }},
		{"another number inside, privacy", 3, func(n uint32) []byte { return sealed(r.ctx, n+1, tag) }},
		{"integrity under privacy", 3, func(n uint32) []byte { return signed(r.ctx, n, tag) }},
		{"privacy under integrity", 2, func(n uint32) []byte { return sealed(r.ctx, n, tag) }},
		{"of another context, integrity", 2, func(n uint32) []byte { return signed(other.ctx, n, tag) }},
		{"of another context, privacy", 3, func(n uint32) []byte { return sealed(other.ctx, n, tag) }},
		{"more behind it, integrity", 2, func(n uint32) []byte { return append(signed(r.ctx, n, tag), 0, 0, 0, 0) }},
		{"more behind it, privacy", 3, func(n uint32) []byte { return append(sealed(r.ctx, n, tag), 0, 0, 0, 0) }},
		{"no checksum", 2, func(n uint32) []byte { return append(words(12, n), append(bytes.Clone(tag), words(0)...)...) }},
		{"a length beyond the message, integrity", 2, func(uint32) []byte { return words(1 << 31) }},
		{"a length beyond the message, privacy", 3, func(uint32) []byte { return words(1<<32 - 1) }},
		{"an empty body, integrity", 2, func(uint32) []byte {
			m := r.ctx.MIC(nil)
			return append(words(0, uint32(len(m))), append(m, 0, 0)...)
		}},
	} {
		seq++
		call := r.call(r.ctx, r.data(seq, c.service), put(c.args(seq)))
		if err := answer(call); stat(err) != rpc.AcceptGarbageArgs {
			t.Errorf("%s: %v", c.name, err)
		}
		if verified(call, r.ctx, seq) == nil {
			continue
		}
		t.Errorf("%s: the refusal is not signed", c.name)
	}
	if n := s.program.Served[rpctest.BUMP].Load(); n != 0 {
		t.Errorf("%d calls were executed", n)
	}
	if n := s.refused(gss.BadBody); n != uint64(seq) {
		t.Errorf("%d bodies counted of %d", n, seq)
	}
	// Correct arguments are accepted.
	for service, args := range map[uint32][]byte{
		1: tag, 2: signed(r.ctx, 1002, tag), 3: sealed(r.ctx, 1003, tag),
	} {
		if err := answer(r.call(r.ctx, r.data(1000+service, service), put(args))); err != nil {
			t.Errorf("service %d: %v", service, err)
		}
	}
}

// A call with a used sequence number is dropped. A call with a number too old for the window is
// dropped with its connection (RFC 2203 §5.3.3.1).
func TestSequenceNumbers(t *testing.T) {
	s := newSite(t, gss.Config{})
	r := s.establish(s.wire(), s.mech)
	for _, c := range []struct {
		seq  uint32
		want rpctest.End
	}{
		{5, rpctest.Sent}, {5, rpctest.Dropped}, {0, rpctest.Sent}, {0, rpctest.Dropped}, {4, rpctest.Sent},
		{1028, rpctest.Sent}, {5, rpctest.Dropped}, {6, rpctest.Sent}, {4, rpctest.DroppedAndClosed},
		{1027, rpctest.Sent}, {1027, rpctest.Dropped},
		// A number far ahead moves the window beyond all earlier numbers.
		{1_000_000, rpctest.Sent}, {1_000_000 - 1023, rpctest.Sent}, {1_000_000 - 1024, rpctest.DroppedAndClosed},
		{1_000_000, rpctest.Dropped}, {1_000_001, rpctest.Sent}, {1_000_000 - 1023, rpctest.DroppedAndClosed},
		{1_000_000 - 1022, rpctest.Sent},
	} {
		if call := r.call(r.ctx, r.data(c.seq, 1), put(tag)); call.End != c.want {
			t.Errorf("number %d: end %d, want %d", c.seq, call.End, c.want)
		}
	}
	if replayed, below := s.refused(gss.Replayed), s.refused(gss.BelowWindow); replayed != 5 || below != 3 {
		t.Errorf("%d replayed, %d below the window", replayed, below)
	}
}

// A forged header neither moves the window nor uses up its sequence number.
func TestForgedHeadersMoveNothing(t *testing.T) {
	s := newSite(t, gss.Config{})
	r := s.establish(s.wire(), s.mech)
	forged := r.data(0x7fffffff, 1)
	forged.verifier = make([]byte, 30)
	r.call(r.ctx, forged, put(tag))
	if err := answer(r.call(r.ctx, r.data(1, 1), put(tag))); err != nil {
		t.Error(err)
	}
}

// The server deletes a context when its ticket has ended, or when it was not used for Config.Idle.
func TestContextsEndWithTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, gss.Config{Idle: 10 * time.Minute})
		s.mech.Life = 30*time.Minute + 30*time.Second
		used, idle := s.establish(s.wire(), s.mech), s.establish(s.wire(), s.mech)
		seq := uint32(0)
		for range 5 {
			time.Sleep(5*time.Minute + time.Second)
			seq++
			if err := answer(used.call(used.ctx, used.data(seq, 1), put(tag))); err != nil {
				t.Fatal(err)
			}
		}
		if err := answer(idle.call(idle.ctx, idle.data(1, 1), put(tag))); !denied(err, rpc.GSSCredProblem) {
			t.Errorf("a context that was not used: %v", err)
		}
		// Between two sweeps, the server finds out at the next call that the ticket has ended.
		time.Sleep(5*time.Minute + 25*time.Second - time.Millisecond)
		if err := answer(used.call(used.ctx, used.data(seq+1, 1), put(tag))); err != nil {
			t.Errorf("just before the ticket's end: %v", err)
		}
		time.Sleep(time.Millisecond)
		if err := answer(used.call(used.ctx, used.data(seq+2, 1), put(tag))); !denied(err, rpc.GSSCtxProblem) {
			t.Errorf("at the ticket's end: %v", err)
		}
		if err := answer(used.call(used.ctx, used.data(seq+3, 1), put(tag))); !denied(err, rpc.GSSCredProblem) {
			t.Errorf("after it: %v", err)
		}
		if st := s.gss.Stats(); st.Contexts != 0 || st.Expired != 2 || st.Refused[gss.Stale] != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// The server deletes a half-made context 30 seconds after its first token.
func TestHalfMadeContextsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := gsstest.New()
		m.Tokens = 2
		s := newSite(t, gss.Config{Mechanisms: []gss.Mechanism{m}})
		w := s.wire()
		i, _ := m.Initiate(context.Background(), "nfs@server")
		token, _, _ := i.Step(nil, time.Now())
		r, err := w.make(procInit, nil, token)
		if err != nil || r.major != uint32(gss.ContinueNeeded) || s.gss.Stats().HalfMade != 1 {
			t.Fatal(r, err)
		}
		time.Sleep(2 * time.Minute)
		if n := s.gss.Stats().HalfMade; n != 0 {
			t.Errorf("%d are left", n)
		}
		token, _, _ = i.Step(r.token, time.Now())
		if r, err = w.make(procContinue, r.handle, token); err != nil || r.major != uint32(gss.NoContext) {
			t.Errorf("going on: %+v, %v", r, err)
		}
	})
}

// hesitant is a mechanism that refuses the first token of each context, with a token that gives the
// reason.
type hesitant struct {
	*gsstest.Mechanism
	reply []byte
}

func (m *hesitant) Acceptor() gss.Acceptor { return &hesitantAcceptor{m: m} }

type hesitantAcceptor struct {
	m     *hesitant
	again bool
}

func (a *hesitantAcceptor) Accept(token []byte, now time.Time) (gss.Context, []byte, error) {
	if !a.again {
		a.again = true
		return nil, a.m.reply, &gss.Error{Major: gss.ContinueNeeded, Minor: 40, Text: "an unknown kind of token"}
	}
	return a.m.Mechanism.Acceptor().Accept(token, now)
}

// If the mechanism refuses a token with ContinueNeeded, the initiator gets the mechanism's reply,
// and can send another token.
func TestTokenThatIsRefusedForAnother(t *testing.T) {
	m := &hesitant{gsstest.New(), []byte("another, please")}
	s := newSite(t, gss.Config{Mechanisms: []gss.Mechanism{m}})
	i, _ := m.Initiate(context.Background(), "nfs@server")
	token, _, _ := i.Step(nil, time.Now())
	w := s.wire()
	r, err := w.make(procInit, nil, token)
	if err != nil || r.major != uint32(gss.ContinueNeeded) || string(r.token) != "another, please" || len(r.handle) == 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if n := s.refused(gss.RefusedToken); n != 1 {
		t.Errorf("%d tokens were refused", n)
	}
	if r, err = w.make(procContinue, r.handle, token); err != nil || r.major != 0 {
		t.Errorf("going on: %+v, %v", r, err)
	}
	// Without a reply token, the refusal is a failure.
	m.reply = nil
	if r, err = w.make(procInit, nil, token); err != nil || r.major != uint32(gss.Failure) || len(r.handle)+len(r.token) > 0 {
		t.Errorf("without a token: %+v, %v", r, err)
	}
	if n := s.gss.Stats().HalfMade; n != 0 {
		t.Errorf("%d are half made", n)
	}
}

func TestDestroy(t *testing.T) {
	s := newSite(t, gss.Config{})
	r := s.establish(s.wire(), s.mech)
	for service := uint32(1); service <= 3; service++ {
		r := s.establish(s.wire(), s.mech)
		h := r.data(1, service)
		h.proc, h.procedure = procDestroy, 0
		call := r.call(r.ctx, h, nil)
		if err := answer(call); err != nil || verified(call, r.ctx, 1) != nil {
			t.Errorf("service %d: %v, signed: %v", service, err, verified(call, r.ctx, 1))
		}
		if err := answer(r.call(r.ctx, r.data(2, 1), put(tag))); !denied(err, rpc.GSSCredProblem) {
			t.Errorf("service %d, afterwards: %v", service, err)
		}
	}
	h := r.data(1, 1)
	h.proc, h.procedure = procDestroy, 0
	answer(r.call(r.ctx, r.data(1, 1), put(tag)))
	if call := r.call(r.ctx, h, nil); call.End != rpctest.Dropped {
		t.Error("DESTROY under a number that was used")
	}
	if st := s.gss.Stats(); st.Contexts != 1 || st.Destroyed != 3 {
		t.Errorf("%+v", st)
	}
}

// If the server refuses a context, the answer has the reason, but no handle, token or verifier (RFC
// 2203 §5.2.3.1).
func TestContextsThatAreRefused(t *testing.T) {
	s := newSite(t, gss.Config{})
	good := func() []byte {
		i, _ := s.mech.Initiate(context.Background(), "nfs@server")
		token, _, _ := i.Step(nil, time.Now())
		return token
	}
	foreign := gsstest.New()
	foreign.Secret = "another"
	i, _ := foreign.Initiate(context.Background(), "nfs@server")
	stranger, _, _ := i.Step(nil, time.Now())
	late := &gss.Error{Major: gss.CredentialsExpired, Minor: 37, Text: "the clocks differ"}
	changed := good()
	changed[len(changed)-1] ^= 1
	otherName := good()
	otherName[4] ^= 1
	for _, c := range []struct {
		name   string
		proc   uint32
		token  []byte
		refuse error
		major  gss.Major
		minor  uint32
		count  gss.Reason
	}{
		{"no token", procInit, nil, nil, gss.BadMech, 0, gss.RefusedMechanism},
		{"a token of no mechanism", procInit, []byte("hello"), nil, gss.BadMech, 0, gss.RefusedMechanism},
		{"a token of another mechanism", procInit, otherName, nil, gss.BadMech, 0, gss.RefusedMechanism},
		{"a token that was changed", procInit, changed, nil, gss.DefectiveCred, 31, gss.RefusedCredential},
		{"a token under another secret", procInit, stranger, nil, gss.DefectiveCred, 31, gss.RefusedCredential},
		{"clocks that differ", procInit, good(), late, gss.CredentialsExpired, 37, gss.RefusedExpired},
		{"an error that is not the mechanism's", procInit, good(), errNoAnswer, gss.Failure, 0, gss.RefusedOther},
		{"an error that is none", procInit, good(), &gss.Error{}, gss.Failure, 0, gss.RefusedOther},
		{"a token that was used", procInit, good(), &gss.Error{Major: gss.DuplicateToken}, gss.DuplicateToken, 0, gss.RefusedReplay},
		{"CONTINUE_INIT of nothing", procContinue, good(), nil, gss.NoContext, 0, gss.RefusedHandle},
	} {
		s.mech.Refuse = func(string) error { return c.refuse }
		before := s.refused(c.count)
		r, err := s.wire().make(c.proc, nil, c.token)
		if err != nil || r.major != uint32(c.major) || r.minor != c.minor || len(r.handle)+len(r.token) != 0 ||
			r.verifier.Flavor != rpc.AuthNone || len(r.verifier.Body) != 0 {
			t.Errorf("%s: %+v, %v", c.name, r, err)
		}
		if n := s.refused(c.count) - before; n != 1 {
			t.Errorf("%s: counted %d times as %v", c.name, n, c.count)
		}
	}
	s.mech.Refuse = nil
	s.mech.Life = -time.Second
	if r, err := s.wire().make(procInit, nil, good()); err != nil || r.major != uint32(gss.CredentialsExpired) {
		t.Errorf("a ticket that has ended: %+v, %v", r, err)
	}
	if err := answer(s.wire().call(nil, header{version: 1, proc: procInit}, put(words(9)))); stat(err) != rpc.AcceptGarbageArgs {
		t.Errorf("arguments that are none: %v", err)
	}
	if st := s.gss.Stats(); st.Contexts != 0 || st.Made != 0 {
		t.Errorf("%+v", st)
	}
}

// A wordy mechanism answers with the token reply, which may have any length.
type wordy struct {
	*gsstest.Mechanism
	reply []byte
}

func (m *wordy) Acceptor() gss.Acceptor { return m }

func (m *wordy) Accept(token []byte, now time.Time) (gss.Context, []byte, error) {
	c, _, err := m.Mechanism.Acceptor().Accept(token, now)
	return c, m.reply, err
}

// The server refuses a context if the mechanism's token is longer than maxReplyToken.
func TestTokenThatAnswersAtLength(t *testing.T) {
	m := &wordy{Mechanism: gsstest.New()}
	s := newSite(t, gss.Config{Mechanisms: []gss.Mechanism{m}})
	for n, want := range map[int]gss.Major{2 << 10: gss.Complete, 2<<10 + 1: gss.Failure} {
		m.reply = make([]byte, n)
		i, _ := m.Initiate(context.Background(), "nfs@server")
		token, _, _ := i.Step(nil, time.Now())
		r, err := s.wire().make(procInit, nil, token)
		if err != nil || r.major != uint32(want) || (len(r.token) == n) != (want == gss.Complete) {
			t.Errorf("%d bytes: major %#x, %d bytes, %v", n, r.major, len(r.token), err)
		}
	}
	if st := s.gss.Stats(); st.Contexts != 1 {
		t.Errorf("%+v", st)
	}
}
