package gss_test

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss/gsstest"
)

// address returns the address of peer i.
func address(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 51, byte(i >> 8), byte(i)}), 700)
}

// heap returns the memory in use, in bytes.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// If one address makes or begins any number of contexts, other addresses lose none, and the memory
// is bounded.
func TestFloodOfContextsFromOneAddress(t *testing.T) {
	const calls = 12_000 // three times the share of an address
	for _, c := range []struct {
		name   string
		tokens int
	}{{"established", 1}, {"half made", 2}} {
		t.Run(c.name, func(t *testing.T) {
			m := gsstest.New()
			m.Tokens = c.tokens
			s := newSite(t, gss.Config{Mechanisms: []gss.Mechanism{m}, MaxPerAddress: 4096})
			other := s.establish(s.wireFrom(address(1)), m)
			hostile := s.wireFrom(address(2))
			before := heap()
			i, err := m.Initiate(context.Background(), "nfs@server")
			if err != nil {
				t.Fatal(err)
			}
			token, _, _ := i.Step(nil, time.Now())
			for range calls {
				if r, err := hostile.make(procInit, nil, token); err != nil || r.major > 1 {
					t.Fatalf("%+v, %v", r, err)
				}
			}
			if grown := heap() - before; grown > 16<<20 {
				t.Errorf("%d bytes more are in use", grown)
			}
			st := s.gss.Stats()
			if st.Contexts > 1+4096 || st.HalfMade > 64 || st.Contexts+st.HalfMade < 60 {
				t.Errorf("%+v", st)
			}
			if err := answer(other.call(other.ctx, other.data(1, 1), put(tag))); err != nil {
				t.Errorf("a context of another address: %v", err)
			}
			s.establish(s.wireFrom(address(3)), m)
		})
	}
}

// At most half of the processors compute on tokens at once, so that the other half remains for
// other calls.
func TestTokensTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, gss.Config{})
		var now atomic.Int64
		release := make(chan struct{})
		s.mech.Refuse = func(string) error {
			now.Add(1)
			<-release
			return nil
		}
		i, _ := s.mech.Initiate(context.Background(), "nfs@server")
		token, _, _ := i.Step(nil, time.Now())
		var wg sync.WaitGroup
		const calls = 50
		for i := range calls {
			w := s.wireFrom(address(i))
			wg.Go(func() {
				if r, err := w.make(procInit, nil, token); err != nil || r.major != 0 {
					t.Errorf("%+v, %v", r, err)
				}
			})
		}
		synctest.Wait()
		if n, most := now.Load(), int64(max(runtime.GOMAXPROCS(0)/2, 1)); n != most {
			t.Errorf("%d tokens are taken at once, want %d", n, most)
		}
		close(release)
		wg.Wait()
	})
}

// If MaxContexts is reached, an address with the most contexts loses one.
func TestFullTable(t *testing.T) {
	s := newSite(t, gss.Config{MaxContexts: 64, MaxPerAddress: 48, MaxPerPrincipal: 65})
	var few []*raw
	for i := range 16 {
		few = append(few, s.establish(s.wireFrom(address(i)), s.mech))
	}
	var many []*raw
	for range 48 {
		many = append(many, s.establish(s.wireFrom(address(100)), s.mech))
	}
	served := func(r *raw, seq uint32) bool { return answer(r.call(r.ctx, r.data(seq, 1), put(tag))) == nil }
	if n := s.gss.Stats().Contexts; n != 64 {
		t.Fatalf("%d contexts", n)
	}
	few = append(few, s.establish(s.wireFrom(address(101)), s.mech))
	for i, r := range few {
		if !served(r, 1) {
			t.Errorf("address %d lost its context", i)
		}
	}
	if n := s.gss.Stats().Contexts; n != 64 {
		t.Errorf("%d contexts are left", n)
	}
	left := 0
	for _, r := range many {
		if served(r, 1) {
			left++
		}
	}
	if left != 47 || s.refused(gss.Evicted) != 1 {
		t.Errorf("the address that had most has %d; %d evicted", left, s.refused(gss.Evicted))
	}
}

// If a principal has MaxPerPrincipal contexts and makes another, it loses one that was idle for
// long. Other principals lose none.
func TestPrincipalWithTooManyContexts(t *testing.T) {
	s := newSite(t, gss.Config{MaxContexts: 16, MaxPerAddress: 16, MaxPerPrincipal: 4})
	other := gsstest.New()
	other.Name = "other@TEST"
	theirs := s.establish(s.wireFrom(address(9)), other)
	var last *raw
	for i := range 6 {
		last = s.establish(s.wireFrom(address(i)), s.mech)
	}
	for name, r := range map[string]*raw{"the last context": last, "another principal's": theirs} {
		if err := answer(r.call(r.ctx, r.data(1, 1), put(tag))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if st := s.gss.Stats(); st.Contexts != 5 || st.Made != 7 || st.Refused[gss.Evicted] != 2 {
		t.Errorf("%+v", st)
	}
}

// If an address has MaxPerAddress contexts and makes another, it does not lose a context that is in
// use.
func TestUsedContextOutlivesIdleOnes(t *testing.T) {
	s := newSite(t, gss.Config{MaxContexts: 64, MaxPerAddress: 4})
	w := s.wire()
	used := s.establish(w, s.mech)
	if !s.gss.MakeUsed(used.handle) {
		t.Fatal("no such context")
	}
	for i := range 5 {
		s.establish(w, s.mech)
		if err := answer(used.call(used.ctx, used.data(uint32(i+1), 1), put(tag))); err != nil {
			t.Fatalf("after %d more: %v", i+1, err)
		}
		s.gss.MakeUsed(used.handle)
	}
	if st := s.gss.Stats(); st.Contexts != 4 || st.Refused[gss.Evicted] != 2 {
		t.Errorf("%+v", st)
	}
}

// For MaxPerAddress, a /64 prefix of IPv6 counts as one address, and so do all forms of one IPv4
// address.
func TestAddressesThatCountAsOne(t *testing.T) {
	s := newSite(t, gss.Config{MaxContexts: 64, MaxPerAddress: 2})
	for i := range 6 {
		s.establish(s.wireFrom(netip.MustParseAddrPort(fmt.Sprintf("[2001:db8::%d]:700", i+1))), s.mech)
	}
	s.establish(s.wireFrom(netip.MustParseAddrPort("[2001:db8:0:1::1]:700")), s.mech)
	if n := s.gss.Stats().Contexts; n != 3 {
		t.Errorf("%d contexts of two networks", n)
	}
	for range 2 {
		s.establish(s.wireFrom(netip.MustParseAddrPort("192.0.2.1:700")), s.mech)
		s.establish(s.wireFrom(netip.MustParseAddrPort("[::ffff:192.0.2.1]:700")), s.mech)
	}
	if n := s.gss.Stats().Contexts; n != 5 {
		t.Errorf("%d contexts after those of an IPv4 address", n)
	}
}

// Many goroutines may use one context at once, over any connection from any address.
func TestManyUseOneContext(t *testing.T) {
	for name, service := range services {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, gss.Config{})
			k := s.client(s.wire(), service)
			const goroutines, calls = 32, 40
			var wg sync.WaitGroup
			seen := make([]map[uint64]bool, goroutines)
			for i := range goroutines {
				seen[i] = make(map[uint64]bool)
				wg.Go(func() {
					for range calls {
						n, err := bump(k)
						if err != nil || seen[i][n] {
							t.Errorf("BUMP %d: %v", n, err)
							return
						}
						seen[i][n] = true
					}
				})
			}
			wg.Wait()
			all := make(map[uint64]bool)
			for _, m := range seen {
				for n := range m {
					all[n] = true
				}
			}
			if len(all) != goroutines*calls {
				t.Errorf("%d different answers to %d calls", len(all), goroutines*calls)
			}
			if st := s.gss.Stats(); st.Made != 1 || st.Refused != ([len(st.Refused)]uint64{}) {
				t.Errorf("%+v", st)
			}
		})
	}
}

// Many goroutines can make, use, sweep and destroy contexts at once.
func TestContextsComeAndGo(t *testing.T) {
	s := newSite(t, gss.Config{MaxContexts: 32, MaxPerAddress: 8, MaxPerPrincipal: 33})
	var wg sync.WaitGroup
	for i := range 16 {
		w := s.wireFrom(address(i % 8))
		wg.Go(func() {
			for range 30 {
				r := s.establish(w, s.mech)
				err := answer(r.call(r.ctx, r.data(1, 1), put(tag)))
				if err != nil && !denied(err, rpc.GSSCredProblem) {
					t.Error(err)
				}
				h := r.data(2, 1)
				h.proc, h.procedure = procDestroy, 0
				if err := answer(r.call(r.ctx, h, nil)); err != nil && !denied(err, rpc.GSSCredProblem) {
					t.Error(err)
				}
				s.gss.Sweep()
			}
		})
	}
	wg.Wait()
	if st := s.gss.Stats(); st.Contexts != 0 || st.Made != 480 || st.Destroyed+st.Refused[gss.Evicted] != 480 {
		t.Errorf("%+v", st)
	}
}
