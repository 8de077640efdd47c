package gss_test

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss/gsstest"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// If the server no longer knows the context, the Client makes one new context for all calls that
// were denied, and each call is executed once.
func TestClientMakesAnotherContext(t *testing.T) {
	for name, service := range services {
		s := newSite(t, gss.Config{})
		k := s.client(s.wire(), service)
		s.gss.Forget()
		const calls = 20
		done := make(chan error, calls)
		for range calls {
			x := rpctest.NewExchange(rpctest.BUMP, put(tag))
			x.Done = func(x *rpc.Exchange) { done <- x.Err }
			k.Start(x)
		}
		for range calls {
			if err := <-done; err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n := s.program.Served[rpctest.BUMP].Load(); n != calls {
			t.Errorf("%s: %d calls were executed", name, n)
		}
		if n := s.gss.Stats().Made; n != 2 {
			t.Errorf("%s: %d contexts were made", name, n)
		}
	}
}

// If the server denies the repeated call as well, the Client does not repeat it again.
func TestClientTriesAgainOnce(t *testing.T) {
	s := newSite(t, gss.Config{})
	w := s.wire()
	k := s.client(w, rpc.GSSNone)
	w.change = func(m []byte) []byte {
		if be32(m[36:]) == procData {
			m[40] = 0xff // the sequence number
		}
		return m
	}
	if _, err := bump(k); !denied(err, rpc.GSSCredProblem) {
		t.Error(err)
	}
	if n, made := s.refused(gss.BadHeader), s.gss.Stats().Made; n != 2 || made != 2 {
		t.Errorf("%d calls, %d contexts", n, made)
	}
	w.change = nil
	if _, err := bump(k); err != nil {
		t.Error(err)
	}
}

// If the Client cannot make a new context, the waiting calls end with the error. A later call tries
// again.
func TestClientWithoutContext(t *testing.T) {
	s := newSite(t, gss.Config{})
	var away atomic.Bool
	gone := errors.New("the KDC does not answer")
	s.mech.Unreachable = func(context.Context) error {
		if away.Load() {
			return gone
		}
		return nil
	}
	k := s.client(s.wire(), rpc.GSSIntegrity)
	s.gss.Forget()
	away.Store(true)
	for range 2 {
		if _, err := bump(k); !errors.Is(err, gone) {
			t.Error(err)
		}
	}
	away.Store(false)
	if _, err := bump(k); err != nil {
		t.Error(err)
	}
	if _, err := gss.NewClient(context.Background(), s.wire(), gss.ClientConfig{Mechanism: s.mech}); err == nil {
		t.Error("a client without a service")
	}
	away.Store(true)
	if _, err := gss.NewClient(context.Background(), s.wire(), s.config(rpc.GSSNone)); !errors.Is(err, gone) {
		t.Errorf("a client without a context: %v", err)
	}
}

// If the ticket has ended, the Client makes a new context before the next call, without waiting for
// a denial by the server.
func TestClientRenewsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, gss.Config{})
		s.mech.Life = time.Hour
		k := s.client(s.wire(), rpc.GSSIntegrity)
		time.Sleep(time.Hour)
		if _, err := bump(k); err != nil {
			t.Error(err)
		}
		if st := s.gss.Stats(); st.Made != 2 || st.Refused != ([len(st.Refused)]uint64{}) {
			t.Errorf("%+v", st)
		}
	})
}

// The Client refuses every reply that the server did not sign (RFC 2203 §5.3.3.2).
func TestRepliesThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		name    string
		service rpc.GSSService
		back    func(m []byte) []byte
	}{
		{"no verifier", rpc.GSSNone, func(m []byte) []byte {
			return append(m[:12], append(words(0, 0), m[12+8+32:]...)...)
		}},
		{"a wrong verifier", rpc.GSSNone, func(m []byte) []byte { m[20] ^= 1; return m }},
		{"a wrong checksum", rpc.GSSIntegrity, func(m []byte) []byte { m[len(m)-8] ^= 1; return m }},
		{"other results", rpc.GSSIntegrity, func(m []byte) []byte { m[12+8+32+4+8] ^= 1; return m }},
		{"another number", rpc.GSSIntegrity, func(m []byte) []byte { m[12+8+32+4+7] ^= 1; return m }},
		{"bare results", rpc.GSSIntegrity, func(m []byte) []byte { return append(m[:12+8+32+4], 0, 0, 0, 0, 0, 0, 0, 1) }},
		{"other results, encrypted", rpc.GSSPrivacy, func(m []byte) []byte { m[12+8+32+4+4+24] ^= 1; return m }},
		{"bare results, encrypted", rpc.GSSPrivacy, func(m []byte) []byte { return append(m[:12+8+32+4], 0, 0, 0, 0, 0, 0, 0, 1) }},
		{"no results", rpc.GSSPrivacy, func(m []byte) []byte { return m[:12+8+32+4] }},
		{"a refusal that is not signed", rpc.GSSNone, func(m []byte) []byte { return append(m[:12], words(0, 0, 5)...) }},
	} {
		s := newSite(t, gss.Config{})
		w := s.wire()
		k := s.client(w, c.service)
		w.back = c.back
		_, err := bump(k)
		w.back = nil
		if !errors.Is(err, gss.ErrReply) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// The Client does not accept an old reply to a new call, because the verifier of the old reply
// signs another sequence number.
func TestReplayedReplyIsRefused(t *testing.T) {
	s := newSite(t, gss.Config{})
	w := s.wire()
	k := s.client(w, rpc.GSSIntegrity)
	var old []byte
	w.back = func(m []byte) []byte { old = append(old, m...); return m }
	if _, err := bump(k); err != nil {
		t.Fatal(err)
	}
	w.back = func(m []byte) []byte { return append(m[:4], old[4:]...) }
	if _, err := bump(k); !errors.Is(err, gss.ErrReply) {
		t.Error(err)
	}
	w.back = nil
}

// If the server answers a call with an error status or a denial, the caller gets that error.
func TestRefusalsReachTheCaller(t *testing.T) {
	for name, service := range services {
		s := newSite(t, gss.Config{})
		k := s.client(s.wire(), service)
		fail := func(accept, auth uint32) error {
			x := rpctest.NewExchange(rpctest.FAIL, put(words(accept, auth)))
			return rpc.Do(context.Background(), k, x, nil)
		}
		if err := fail(uint32(rpc.AcceptSystemErr), 0); stat(err) != rpc.AcceptSystemErr {
			t.Errorf("%s: %v", name, err)
		}
		if err := fail(0, uint32(rpc.AuthTooWeak)); !denied(err, rpc.AuthTooWeak) {
			t.Errorf("%s: %v", name, err)
		}
		err := rpc.Do(context.Background(), k, rpctest.NewExchange(1000, nil), nil)
		if stat(err) != rpc.AcceptProcUnavail {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// With these answers of a server, the Client makes no context.
func TestAnswersThatMakeNoContext(t *testing.T) {
	init := func(change func(r *result)) func(m []byte) []byte {
		return func(m []byte) []byte {
			d := xdr.NewDecoder(m)
			_, v, err := rpc.ReadReply(d)
			if err != nil {
				return m
			}
			r := result{verifier: v, flavorOfReply: v.Flavor, handle: d.Opaque(400)}
			r.major, r.minor, r.window, r.token = d.Uint32(), d.Uint32(), d.Uint32(), d.Opaque(1<<16)
			change(&r)
			w := xdr.NewWriter(make([]byte, 0, 4096))
			w.FixedOpaque(m[:12])
			w.Uint32(uint32(r.flavorOfReply))
			w.Opaque(r.verifier.Body)
			w.Uint32(0)
			w.Opaque(r.handle)
			w.Uint32(r.major)
			w.Uint32(r.minor)
			w.Uint32(r.window)
			w.Opaque(r.token)
			return w.Bytes()
		}
	}
	for name, back := range map[string]func(m []byte) []byte{
		"it is not signed":         init(func(r *result) { r.flavorOfReply, r.verifier.Body = rpc.AuthNone, nil }),
		"it is signed wrongly":     init(func(r *result) { r.verifier.Body[0] ^= 1 }),
		"another window":           init(func(r *result) { r.window++ }),
		"no window":                init(func(r *result) { r.window = 0 }),
		"no handle":                init(func(r *result) { r.handle = nil }),
		"another token":            init(func(r *result) { r.token[0] ^= 1 }),
		"no token":                 init(func(r *result) { r.token = nil }),
		"it goes on for ever":      init(func(r *result) { r.major = 1 }),
		"a failure":                init(func(r *result) { r.major = uint32(gss.Failure) }),
		"results that end early":   func(m []byte) []byte { return m[:len(m)-4] },
		"results with more behind": func(m []byte) []byte { return append(m, 0, 0, 0, 0) },
	} {
		s := newSite(t, gss.Config{})
		w := s.wire()
		w.back = back
		if _, err := gss.NewClient(context.Background(), w, s.config(rpc.GSSNone)); err == nil {
			t.Errorf("%s: there is a client", name)
		}
		if n := s.mech.Initiated.Load(); n > 0 && name == "another token" {
			t.Errorf("%s: the mechanism is content", name)
		}
	}
}

// The server's window bounds the outstanding calls. Further calls wait in the order of Start, and
// can be cancelled while they wait.
func TestCallsWaitForTheWindow(t *testing.T) {
	const lane = 7
	s := newSite(t, gss.Config{})
	w := s.wire()
	k := s.client(w, rpc.GSSNone)
	release := sync.OnceFunc(func() { s.program.Release(lane) })
	t.Cleanup(release) // runs before the cleanup of the site, which waits for the calls
	const calls = gss.MaxUnderWay + 3
	done := make(chan error, calls)
	start := func() *rpc.Exchange {
		x := rpctest.NewExchange(rpctest.STALL, put(words(lane)))
		x.Done = func(x *rpc.Exchange) { done <- x.Err }
		k.Start(x)
		return x
	}
	var last *rpc.Exchange
	for range calls {
		last = start()
	}
	if n := s.gss.Stats().Calls; n > gss.MaxUnderWay {
		t.Errorf("%d calls are under way", n)
	}
	enough := errors.New("enough")
	k.Cancel(last, enough)
	if err := await.Receive(t, "the call that was given up on ends", done); !errors.Is(err, enough) {
		t.Errorf("a call that waited: %v", err)
	}
	k.Cancel(last, enough) // it has ended, so Cancel does nothing
	release()
	for range calls - 1 {
		if err := await.Receive(t, "a call ends", done); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.program.Served[rpctest.STALL].Load(); n != calls-1 {
		t.Errorf("%d calls were executed", n)
	}
}

// Close makes the server delete the context. After Close, no call starts.
func TestClose(t *testing.T) {
	s := newSite(t, gss.Config{})
	k := s.client(s.wire(), rpc.GSSPrivacy)
	if _, err := bump(k); err != nil {
		t.Fatal(err)
	}
	k.Close()
	k.Close()
	if st := s.gss.Stats(); st.Contexts != 0 || st.Destroyed != 1 {
		t.Errorf("%+v", st)
	}
	if _, err := bump(k); !errors.Is(err, gss.ErrClosed) {
		t.Error(err)
	}
}

// If the server does not answer, Close waits for two seconds, or for Timeout if that is shorter.
// Then it cancels its call.
func TestCloseDoesNotWaitForASilentServer(t *testing.T) {
	for _, c := range []struct{ timeout, most time.Duration }{
		{0, 2 * time.Second}, {time.Hour, 2 * time.Second}, {time.Second / 2, time.Second / 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, gss.Config{})
			w := &mute{wire: s.wire()}
			cfg := s.config(rpc.GSSIntegrity)
			cfg.Timeout = c.timeout
			k, err := gss.NewClient(t.Context(), w, cfg)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := bump(k); err != nil {
				t.Fatal(err)
			}
			w.silent.Store(true)
			begun := time.Now()
			k.Close()
			if d := time.Since(begun); d != c.most {
				t.Errorf("time-out %v: Close took %v, want %v", c.timeout, d, c.most)
			}
			if n := w.asked.Load(); n != w.cancelled.Load() || n != 1 {
				t.Errorf("time-out %v: the server was asked %d times, %d questions were given up", c.timeout, n, w.cancelled.Load())
			}
		})
	}
}

// mute is a wire whose server does not answer while silent is set.
type mute struct {
	*wire
	silent           atomic.Bool
	asked, cancelled atomic.Int32
}

func (m *mute) Start(x *rpc.Exchange) {
	if m.silent.Load() {
		m.asked.Add(1)
		return
	}
	m.wire.Start(x)
}

func (m *mute) Cancel(x *rpc.Exchange, err error) {
	if m.silent.Load() {
		m.cancelled.Add(1)
		x.Err = err
		x.Done(x)
	}
}

// A repeated call has a new sequence number. The server recognizes it by its unprotected arguments
// and its principal, and answers with the stored reply.
func TestRetransmission(t *testing.T) {
	for service := uint32(1); service <= 3; service++ {
		s := newSite(t, gss.Config{})
		r := s.establish(s.wire(), s.mech)
		send := func(r *raw, seq uint32) (n uint64, err error) {
			r.xid.Store(4711)
			args := tag
			switch service {
			case 2:
				args = signed(r.ctx, seq, tag)
			case 3:
				args = sealed(r.ctx, seq, tag)
			}
			c := r.call(r.ctx, r.data(seq, service), put(args))
			if err := answer(c); err != nil {
				return 0, err
			}
			if err := verified(c, r.ctx, seq); err != nil {
				return 0, err
			}
			d := xdr.NewDecoder(c.Reply)
			rpc.ReadReply(d)
			body := d.Rest()
			switch service {
			case 2:
				body = body[8:16]
			case 3:
				from, to, err := r.ctx.Unwrap(body[4 : len(body)-xdr.Pad(int(be32(body)))])
				if err != nil {
					return 0, err
				}
				body = body[4+from+4 : 4+to]
			}
			return binary.BigEndian.Uint64(body), nil
		}
		for seq := uint32(1); seq <= 3; seq++ {
			if n, err := send(r, seq); err != nil || n != 1 {
				t.Errorf("service %d, attempt %d: %d, %v", service, seq, n, err)
			}
		}
		// The same call under another context of the same principal, whose user number has changed,
		// gets the stored reply as well.
		again := s.establish(s.wire(), s.mech)
		if n, err := send(again, 1); err != nil || n != 1 {
			t.Errorf("service %d, another context: %d, %v", service, n, err)
		}
		other := &gsstest.Mechanism{Secret: s.mech.Secret, Host: s.mech.Host, Name: "other@TEST"}
		stranger := s.establish(s.wire(), other)
		if n, err := send(stranger, 1); err != nil || n != 2 {
			t.Errorf("service %d, another principal: %d, %v", service, n, err)
		}
		if n := s.program.Served[rpctest.BUMP].Load(); n != 2 {
			t.Errorf("service %d: executed %d times", service, n)
		}
	}
}

// A client sends at most maxLegs tokens, even if the server asks for more.
func TestContextThatTakesTooManyTokens(t *testing.T) {
	for tokens, made := range map[int]bool{16: true, 17: false} {
		m := gsstest.New()
		m.Tokens = tokens
		s := newSite(t, gss.Config{Mechanisms: []gss.Mechanism{m}})
		cfg := s.config(rpc.GSSNone)
		cfg.Mechanism = m
		c, err := gss.NewClient(context.Background(), s.wire(), cfg)
		if (err == nil) != made {
			t.Errorf("%d tokens: %v", tokens, err)
		}
		if err == nil {
			c.Close()
		}
	}
}
