package gss_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
)

// ends has both ends of a context: the server that accepted it, and the client that made it and
// serves the server's calls under it.
type ends struct {
	server, client *site
	fore           *raw
	theirs         []byte
}

func newEnds(t *testing.T) *ends {
	e := &ends{server: newSite(t, gss.Config{}), client: newSite(t, gss.Config{})}
	e.fore = e.server.establish(e.server.wire(), e.server.mech)
	e.theirs = e.client.gss.AdoptContext(e.fore.ctx)
	return e
}

func (e *ends) back(t *testing.T, service rpc.GSSService) *gss.Back {
	t.Helper()
	b := e.server.gss.Back(e.fore.handle, e.theirs, service, "user@TEST")
	if b == nil {
		t.Fatal("the context is not found")
	}
	return b
}

// A server calls its client under the context that the client made, with the protection that the
// client requested, and with separate sequence numbers.
func TestCallsBack(t *testing.T) {
	for name, service := range services {
		t.Run(name, func(t *testing.T) {
			e := newEnds(t)
			b := e.back(t, service)
			w := e.client.wire()
			var sizes []int
			var mu sync.Mutex
			w.change = func(m []byte) []byte {
				mu.Lock()
				sizes = append(sizes, len(m))
				mu.Unlock()
				return m
			}
			const calls = 50
			var wg sync.WaitGroup
			for range calls {
				wg.Go(func() {
					if _, err := bump(b.Caller(w)); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if n := e.client.program.Served[rpctest.BUMP].Load(); n != calls {
				t.Errorf("%d calls were executed", n)
			}
			for _, n := range sizes {
				// BUMP's argument is an opaque of five bytes.
				want := b.CallSize(4 + 8)
				if service == rpc.GSSPrivacy && n < want && n >= want-64 {
					continue // CallSize includes padding that this call does not have
				}
				if n != want {
					t.Fatalf("a call of %d bytes, CallSize says %d", n, want)
				}
			}
			// The calls of the server do not use sequence numbers of the client's calls.
			if err := answer(e.fore.call(e.fore.ctx, e.fore.data(1, 1), put(tag))); err != nil {
				t.Error(err)
			}
			if st := e.client.gss.Stats(); st.Calls != calls || st.Refused != ([len(st.Refused)]uint64{}) {
				t.Errorf("%+v", st)
			}
		})
	}
}

// Server.Back returns nil for the context of another principal.
func TestContextsOfOthersAreNotCalledBackUnder(t *testing.T) {
	e := newEnds(t)
	other := append([]byte{}, e.fore.handle...)
	other[7]++
	for name, b := range map[string]*gss.Back{
		"another principal":                 e.server.gss.Back(e.fore.handle, e.theirs, rpc.GSSNone, "other@TEST"),
		"another handle":                    e.server.gss.Back(other, e.theirs, rpc.GSSNone, "user@TEST"),
		"no handle":                         e.server.gss.Back(nil, e.theirs, rpc.GSSNone, "user@TEST"),
		"no service":                        e.server.gss.Back(e.fore.handle, e.theirs, 0, "user@TEST"),
		"a service too many":                e.server.gss.Back(e.fore.handle, e.theirs, 4, "user@TEST"),
		"no handle of theirs":               e.server.gss.Back(e.fore.handle, nil, rpc.GSSNone, "user@TEST"),
		"a handle that no credential holds": e.server.gss.Back(e.fore.handle, make([]byte, 381), rpc.GSSNone, "user@TEST"),
	} {
		if b != nil {
			t.Errorf("%s: there is a context", name)
		}
	}
	if b := e.server.gss.Back(e.fore.handle, make([]byte, 380), rpc.GSSNone, "user@TEST"); b == nil {
		t.Error("the longest handle is refused")
	}
}

// If the client no longer knows the context, the server does not repeat its call, and makes no
// other context.
func TestClientHasForgottenTheContext(t *testing.T) {
	e := newEnds(t)
	b := e.back(t, rpc.GSSIntegrity)
	e.client.gss.Forget()
	if _, err := bump(b.Caller(e.client.wire())); !denied(err, rpc.GSSCredProblem) {
		t.Error(err)
	}
	if n := e.client.refused(gss.UnknownHandle); n != 1 || !b.Usable(time.Now()) {
		t.Errorf("%d calls were refused", n)
	}
}

// The server makes no call under a context that the client has destroyed, or whose ticket has
// ended. It may use a context that it has evicted.
func TestContextOfCallsBackEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnds(t)
		b := e.back(t, rpc.GSSNone)
		w := e.client.wire()
		e.server.gss.Forget()
		if _, err := bump(b.Caller(w)); err != nil || !b.Usable(time.Now()) {
			t.Errorf("after the server forgot it: %v", err)
		}
		time.Sleep(time.Until(b.Expiry()))
		if _, err := bump(b.Caller(w)); !errors.Is(err, gss.ErrEnded) || b.Usable(time.Now()) {
			t.Errorf("after its end: %v", err)
		}

		e = newEnds(t)
		b = e.back(t, rpc.GSSNone)
		h := e.fore.data(1, 1)
		h.proc, h.procedure = procDestroy, 0
		if err := answer(e.fore.call(e.fore.ctx, h, nil)); err != nil {
			t.Fatal(err)
		}
		if b.Usable(time.Now()) || e.server.gss.Back(e.fore.handle, e.theirs, rpc.GSSNone, "user@TEST") != nil {
			t.Error("it is usable after its client destroyed it")
		}
	})
}

// If a client offers a context for callbacks again with the same handle, the sequence numbers
// continue, because the client drops numbers that it has seen (RFC 2203 §5.3.1). With another
// handle, they start again.
func TestContextThatIsOfferedTwiceGoesOn(t *testing.T) {
	e := newEnds(t)
	w := e.client.wire()
	for range 2 {
		for _, service := range services {
			b := e.back(t, service)
			for range 3 {
				if _, err := bump(b.Caller(w)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if st := e.client.gss.Stats(); st.Refused != ([len(st.Refused)]uint64{}) {
		t.Errorf("%+v", st)
	}
	e.theirs = e.client.gss.AdoptContext(e.fore.ctx)
	if _, err := bump(e.back(t, rpc.GSSNone).Caller(w)); err != nil {
		t.Error(err)
	}
	handles := 2
	for ; e.server.gss.Back(e.fore.handle, []byte{byte(handles)}, rpc.GSSNone, "user@TEST") != nil && handles < 100; handles++ {
	}
	if handles != 16 {
		t.Errorf("a context is called back under %d handles", handles)
	}
}
