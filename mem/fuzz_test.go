package mem

import (
	"math/rand/v2"
	"testing"
)

// FuzzPool makes connections do any actions with a pool, determined by bytes. After each step all
// counters are right, and no queue waits that could be served. At the end all requests are served
// and nothing is left.
func FuzzPool(f *testing.F) {
	f.Add([]byte("\x00\x10\xff\x00\x11\xff\x00\x12\x80\x20\x00\x21\x00"))
	f.Add([]byte("\x00\x00\x01\x00\x40\x02\x00\x80\x03\x70\x00\x50\x00\x10\x00\x60\x00"))
	f.Fuzz(func(t *testing.T, steps []byte) {
		if len(steps) > 400 {
			return
		}
		w := newWorld(t, Config{Ceiling: 6 * mib, Share: 3 * mib, Group: 2 * mib})
		for i := 0; i+3 <= len(steps); i += 3 {
			w.step(steps[i], steps[i+1], steps[i+2])
			audited(t, w.pool)
		}
		w.end()
	})
}

// anyOrderSeeds is the number of histories in TestAnyOrderOfThings.
const anyOrderSeeds = 60

// A world is a pool with shares of a few clients and a few groups, and all requests.
type world struct {
	t      testing.TB
	pool   *Pool
	shares []*Share
	groups []*Group
	asked  []*wish // granted and not released, or waiting
	of     map[*wish]*Share
	heap   map[*Share]int
}

func newWorld(t testing.TB, cfg Config) *world {
	w := &world{t: t, pool: configured(t, cfg), of: map[*wish]*Share{}, heap: map[*Share]int{}}
	for i := range 6 {
		w.shares = append(w.shares, w.pool.OpenShare(site(i/4, i/2), nil))
	}
	w.groups = []*Group{nil, w.pool.NewGroup(), w.pool.NewGroup(), w.pool.NewGroup()}
	return w
}

// step does one action, with the share and group that who determines.
func (w *world) step(what, who, size byte) {
	i := int(who) % len(w.shares)
	s, g := w.shares[i], w.groups[int(who>>4)%len(w.groups)]
	bytes := int(size) * PageSize
	if what&8 != 0 {
		bytes /= 16
	}
	switch what & 7 {
	default:
		a := newWish("asked", bytes, nil)
		a.Group = g
		w.asked = append(w.asked, a)
		w.of[a] = s
		s.Get(&a.Request)
	case 3, 4:
		if len(w.asked) > 0 {
			w.drop(int(size) % len(w.asked))
		}
	case 5:
		if what&16 != 0 {
			s.Charge(bytes)
			w.heap[s] += bytes
		} else {
			s.Discharge(w.heap[s])
			w.heap[s] = 0
		}
	case 6:
		if what&0x70 == 0 {
			s.Close()
			w.discharge(s)
			w.shares[i] = w.pool.OpenShare(site(i/4, i/2), nil)
		} else if b, ok := s.TryGetIn(g, bytes); ok {
			b.Release()
		}
	case 7:
		w.tick()
	}
	w.settled()
}

// tick does the work of the pool's sweep.
func (w *world) tick() {
	w.pool.mu.Lock()
	w.pool.tickLocked()
	w.pool.deliverAndUnlock()
}

// settled waits until every grant was delivered.
func (w *world) settled() {
	delivered(w.t, w.pool)
	kept := w.asked[:0]
	for _, a := range w.asked {
		if a.calls > 1 || a.calls == 1 && (a.buffer == nil) != (a.err != nil) {
			w.t.Fatalf("Granted %d times: %v", a.calls, a.err)
		}
		if a.err == nil {
			kept = append(kept, a)
		}
	}
	w.asked = kept
}

// drop releases a granted request, or cancels a waiting one.
func (w *world) drop(i int) {
	a := w.asked[i]
	w.asked = append(w.asked[:i], w.asked[i+1:]...)
	if a.calls == 1 {
		a.buffer.Release()
	} else if !w.of[a].Cancel(&a.Request) {
		w.t.Fatal("Cancel of a waiting request fails")
	}
}

func (w *world) discharge(s *Share) {
	s.Discharge(w.heap[s])
	delete(w.heap, s)
}

// end releases everything, so that every waiting request is served, whatever is charged.
func (w *world) end() {
	for len(w.asked) > 0 {
		i := 0
		for ; i < len(w.asked) && w.asked[i].calls == 0; i++ {
		}
		if i == len(w.asked) {
			w.t.Fatalf("everything was released, and %d requests wait: %+v", i, w.pool.Stats())
		}
		w.drop(i)
		w.settled()
		audited(w.t, w.pool)
	}
	for _, s := range w.shares {
		s.Close()
		w.discharge(s)
	}
	for _, g := range w.groups[1:] {
		if !g.Idle() {
			w.t.Error("a group is not idle")
		}
	}
	if st := w.pool.Stats(); st.InUse != 0 || st.Waiting != 0 || st.Clients != 0 || st.Active != 0 || st.Shares != 0 || st.Charged != 0 {
		w.t.Errorf("at the end: %+v", st)
	}
}

// For random bytes in place of a fuzzer's, the rules of FuzzPool hold.
func TestAnyOrderOfThings(t *testing.T) {
	for seed := range uint64(anyOrderSeeds) {
		rng := rand.New(rand.NewPCG(3, seed))
		w := newWorld(t, Config{
			Ceiling: 6 * mib, Share: []int64{3 * mib, mib, 6 * mib}[seed%3], Group: []int64{2 * mib, 5 * mib}[seed%2],
		})
		for range 400 {
			w.step(byte(rng.Uint32()), byte(rng.Uint32()), byte(rng.Uint32()))
			if err := w.pool.audit(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		w.end()
		w.pool.Close()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
