package identity

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

var (
	oneClient   = netip.MustParseAddr("192.0.2.1")
	otherClient = netip.MustParseAddr("192.0.2.2")
)

// service is a directory service that delays its answers or fails if the test wants it.
type service struct {
	mu     sync.Mutex
	asked  []uint32
	fails  error
	stalls map[uint32]chan struct{}
	groups func(uid uint32) ([]uint32, bool)
	takes  time.Duration
}

func (s *service) look(ctx context.Context, uid uint32) ([]uint32, bool, error) {
	s.mu.Lock()
	s.asked = append(s.asked, uid)
	fails, stall, takes, groups := s.fails, s.stalls[uid], s.takes, s.groups
	s.mu.Unlock()
	if takes > 0 {
		time.Sleep(takes)
	}
	if stall != nil {
		select {
		case <-stall:
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
	if fails != nil {
		return nil, false, fails
	}
	if groups != nil {
		list, ok := groups(uid)
		return list, ok, nil
	}
	return []uint32{uid + 1, uid + 2}, uid < 1<<31, nil
}

func (s *service) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// timesAsked returns the number of look-ups of a user.
func (s *service) timesAsked(uid uint32) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.asked {
		if a == uid {
			n++
		}
	}
	return n
}

// find looks up a user's groups as a call does. It waits as long as Find says so, and returns the
// time that it waited.
func find(g *Groups, client netip.Addr, uid uint32) (groups []uint32, took time.Duration, err error) {
	began := time.Now()
	for range 100 {
		groups, err = g.Find(client, nil, uid)
		w, waits := errors.AsType[*Wait](err)
		if !waits {
			return groups, time.Since(began), err
		}
		resumed := make(chan struct{})
		w.Await(func() { close(resumed) })
		<-resumed
	}
	return nil, time.Since(began), errors.New("it waits again and again")
}

func inBubble(t *testing.T, test func(t *testing.T, s *service, g *Groups)) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{stalls: make(map[uint32]chan struct{})}
		g := NewGroups(GroupsConfig{Look: s.look})
		defer g.Close()
		test(t, s, g)
	})
}

// The first call for a user waits for the answer. Groups remembers the answer and, while calls use
// it, renews it in the background. It does not use an answer that is older than its Age.
func TestGroupsAreRemembered(t *testing.T) {
	inBubble(t, func(t *testing.T, s *service, g *Groups) {
		for range 3 {
			if groups, _, err := find(g, oneClient, 1000); err != nil || !slices.Equal(groups, []uint32{1001, 1002}) {
				t.Fatalf("%v, %v", groups, err)
			}
		}
		if n := s.timesAsked(1000); n != 1 {
			t.Errorf("asked %d times", n)
		}
		time.Sleep(DefaultAge * 3 / 4)
		s.set(func() { s.groups = func(uint32) ([]uint32, bool) { return []uint32{7}, true } })
		if groups, err := g.Find(oneClient, nil, 1000); err != nil || groups[0] != 1001 {
			t.Errorf("while they are asked for anew: %v, %v", groups, err)
		}
		synctest.Wait()
		if groups, err := g.Find(oneClient, nil, 1000); err != nil || groups[0] != 7 {
			t.Errorf("then: %v, %v", groups, err)
		}
		time.Sleep(DefaultAge)
		if _, err := g.Find(oneClient, nil, 1000); err == nil {
			t.Error("an answer is good beyond its age")
		}
	})
}

// A user without an account has no groups. Groups remembers this answer for a shorter time.
func TestGroupsOfNoAccount(t *testing.T) {
	inBubble(t, func(t *testing.T, s *service, g *Groups) {
		const stranger = 1 << 31
		if groups, _, err := find(g, oneClient, stranger); err != nil || len(groups) != 0 {
			t.Fatalf("%v, %v", groups, err)
		}
		s.set(func() { s.groups = func(uint32) ([]uint32, bool) { return []uint32{9}, true } })
		if groups, err := g.Find(oneClient, nil, stranger); err != nil || len(groups) != 0 {
			t.Errorf("remembered: %v, %v", groups, err)
		}
		time.Sleep(DefaultUnknownAge)
		if groups, _, err := find(g, oneClient, stranger); err != nil || !slices.Equal(groups, []uint32{9}) {
			t.Errorf("later: %v, %v", groups, err)
		}
	})
}

// If a client asks for all user numbers, it causes a limited number of look-ups at a time, and
// Groups remembers a limited number of users for it. Groups still remembers the users of another
// client, and looks up that client's new users.
func TestClientThatCyclesThroughNumbers(t *testing.T) {
	inBubble(t, func(t *testing.T, s *service, g *Groups) {
		for uid := range uint32(10) {
			find(g, otherClient, uid)
		}
		s.set(func() { s.takes = time.Millisecond })
		uid := uint32(1 << 31)
		flood := func(n int) {
			for range n {
				for range 100 { // more calls than the queue has places
					g.Find(oneClient, nil, uid)
					uid++
				}
				if st := g.Stats(); st.Queued > maxQueuedOf+lookers {
					t.Fatalf("%d users are asked for", st.Queued)
				}
				time.Sleep(time.Millisecond)
			}
		}
		flood(100)
		for i := range uint32(10) {
			if _, took, err := find(g, otherClient, 100+i); err != nil || took > 3*time.Millisecond {
				t.Errorf("another client's new user: %v after %v", err, took)
			}
			flood(1)
		}
		flood(2000)
		if st := g.Stats(); st.Known > maxMembersOf+20 || st.Looked < 5000 {
			t.Errorf("%d users are known after %d look-ups", st.Known, st.Looked)
		}
		for i := range uint32(10) {
			if _, err := g.Find(otherClient, nil, i); err != nil {
				t.Errorf("user %d of the other client was forgotten", i)
			}
		}
	})
}

// The look-ups of many addresses together are limited, but each site can queue at least one user.
func TestManyClientsThatCycle(t *testing.T) {
	inBubble(t, func(t *testing.T, s *service, g *Groups) {
		s.set(func() { s.takes = time.Hour })
		uid := uint32(0)
		const clients, ofSite = 10000, 256
		placed := 0
		for i := range uint32(clients) {
			var b [4]byte
			binary.BigEndian.PutUint32(b[:], 10<<24|i)
			client := netip.AddrFrom4(b)
			own := 0
			for range 2 * maxQueuedOf {
				if _, err := g.Find(client, nil, uid); !errors.Is(err, vfs.ErrDelay) {
					own++
				}
				uid++
			}
			// Users that are being looked up are not in the queue any more.
			if own > maxQueuedOf+lookers {
				t.Fatalf("client %d has %d places", i, own)
			}
			if placed += own; i%ofSite == ofSite-1 {
				if placed < 1 {
					t.Fatalf("the clients of site %d have no place", i/ofSite)
				}
				placed = 0
			}
		}
		if st := g.Stats(); st.Queued > maxQueued+clients/ofSite+lookers {
			t.Errorf("%d users are asked for", st.Queued)
		}
		g.Close()
	})
}

// The addresses of a site that ask for users without end do not delay the look-ups of another site, and
// displace no user of it. A connection does not delay another one of its address.
func TestLookUpsAreSharedBySite(t *testing.T) {
	const addresses = 4096
	for name, flooder := range map[string]func(i int) (client netip.Addr, conn any){
		"/64s of a /48": func(i int) (netip.Addr, any) {
			return netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb8, 6: byte(i >> 8), 7: byte(i), 15: 1}), i
		},
		"a /24":                  func(i int) (netip.Addr, any) { return netip.AddrFrom4([4]byte{203, 0, 113, byte(i)}), i },
		"another of its address": func(i int) (netip.Addr, any) { return oneClient, "another" },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *service, g *Groups) {
				for uid := range uint32(10) {
					find(g, oneClient, uid)
				}
				s.set(func() { s.takes = time.Second })
				uid := uint32(1 << 20)
				for i := range addresses {
					client, conn := flooder(i % addresses)
					if client == oneClient && i == maxQueuedOf/2 {
						break
					}
					g.Find(client, conn, uid)
					uid++
				}
				if st := g.Stats(); st.Queued > maxQueued*3/4+lookers {
					t.Errorf("%d users are queued for one site", st.Queued)
				}
				for uid := range uint32(10) {
					if _, took, err := find(g, oneClient, 100+uid); err != nil || took > 2*time.Second {
						t.Fatalf("another site's user, and that of another connection: %v after %v", err, took)
					}
				}
				s.set(func() { s.takes = 0 })
				for i := range 2 * maxMembers {
					if client, conn := flooder(i % addresses); client != oneClient {
						g.Find(client, conn, uid)
					}
					if uid++; i%64 == 0 {
						synctest.Wait()
					}
				}
				for uid := range uint32(10) {
					if _, err := g.Find(oneClient, nil, uid); err != nil {
						t.Errorf("user %d was forgotten", uid)
					}
				}
				if n := g.Stats().Known; n > maxMembers {
					t.Errorf("%d users are remembered", n)
				}
			})
		})
	}
}

// The waiting calls of one address are limited, so that its connections stay usable.
func TestCallsThatWait(t *testing.T) {
	inBubble(t, func(t *testing.T, s *service, g *Groups) {
		stall := make(chan struct{})
		s.stalls[1000] = stall
		var waiting sync.WaitGroup
		var delayed, served atomic.Int64
		call := func(client netip.Addr) {
			waiting.Go(func() {
				if _, _, err := find(g, client, 1000); err != nil {
					delayed.Add(1)
				} else {
					served.Add(1)
				}
			})
			synctest.Wait()
		}
		for range maxWaitingOf + 10 {
			call(oneClient)
		}
		call(otherClient)
		if n, st := delayed.Load(), g.Stats(); n != 10 || st.Waiting != maxWaitingOf+1 {
			t.Errorf("%d are delayed, %+v", n, st)
		}
		close(stall)
		waiting.Wait()
		if n := served.Load(); n != maxWaitingOf+1 {
			t.Errorf("%d are served", n)
		}
	})
}

// All addresses of one IPv6 client count as one client.
func TestClientOfManyAddresses(t *testing.T) {
	inBubble(t, func(t *testing.T, s *service, g *Groups) {
		s.set(func() { s.takes = time.Hour })
		placed := 0
		for i := range uint32(4 * maxQueuedOf) {
			a := netip.MustParseAddr("2001:db8::").As16()
			binary.BigEndian.PutUint32(a[12:], i)
			if _, err := g.Find(netip.AddrFrom16(a), nil, i); !errors.Is(err, vfs.ErrDelay) {
				placed++
			}
		}
		if placed > maxQueuedOf+lookers {
			t.Errorf("%d places", placed)
		}
		g.Close()
	})
}

// The number of groups of all users together is limited.
func TestNumbersAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, s *service, g *Groups) {
		many := make([]uint32, maxGroups)
		s.set(func() { s.groups = func(uint32) ([]uint32, bool) { return many, true } })
		for uid := range uint32(2 * maxNumbers / maxGroups) {
			if _, _, err := find(g, oneClient, uid); err != nil {
				t.Fatal(err)
			}
		}
		if st := g.Stats(); st.Known > maxNumbers/maxGroups {
			t.Errorf("%d users", st.Known)
		}
	})
}

// After Forget, Groups looks up every user again, including users whose look-up was running.
func TestForget(t *testing.T) {
	inBubble(t, func(t *testing.T, s *service, g *Groups) {
		find(g, oneClient, 1000)
		stall := make(chan struct{})
		s.set(func() { s.stalls[1001] = stall })
		if _, err := g.Find(oneClient, nil, 1001); err == nil {
			t.Fatal("known")
		}
		synctest.Wait()
		s.set(func() { s.groups = func(uint32) ([]uint32, bool) { return []uint32{7}, true } })
		g.Forget()
		close(stall)
		for _, uid := range []uint32{1000, 1001} {
			if groups, _, err := find(g, oneClient, uid); err != nil || groups[0] != 7 || s.timesAsked(uid) != 2 {
				t.Errorf("user %d: %v, %v, asked %d times", uid, groups, err, s.timesAsked(uid))
			}
		}
	})
}

// Close cancels look-ups that do not end, and resumes waiting calls.
func TestCloseWhileCallsWait(t *testing.T) {
	inBubble(t, func(t *testing.T, s *service, g *Groups) {
		s.stalls[1000] = make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			_, _, err := find(g, oneClient, 1000)
			ended <- err
		}()
		synctest.Wait()
		g.Close()
		if err := <-ended; !errors.Is(err, vfs.ErrDelay) {
			t.Errorf("%v", err)
		}
		if _, err := g.Find(oneClient, nil, 1001); !errors.Is(err, vfs.ErrDelay) {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// With many concurrent calls, every call gets an answer, and in the end Groups can forget
// everything.
func TestGroupsBesideEachOther(t *testing.T) {
	var n atomic.Uint32
	g := NewGroups(GroupsConfig{Look: func(_ context.Context, uid uint32) ([]uint32, bool, error) {
		if n.Add(1)%7 == 0 {
			return nil, false, errors.New("now and then")
		}
		return []uint32{uid}, uid%3 > 0, nil
	}, Age: time.Millisecond, UnknownAge: time.Millisecond})
	var all sync.WaitGroup
	for i := range byte(8) {
		all.Go(func() {
			client := netip.AddrFrom4([4]byte{10, 0, 0, i % 4})
			for k := range 2000 {
				uid := rand.Uint32N(300)
				switch groups, _, err := find(g, client, uid); {
				case err != nil && !errors.Is(err, vfs.ErrDelay):
					t.Error(err)
				case err == nil && uid%3 > 0 && (len(groups) != 1 || groups[0] != uid), err == nil && uid%3 == 0 && len(groups) > 0:
					t.Errorf("%d: %v", uid, groups)
				}
				if k%500 == 0 {
					g.Forget()
				}
			}
		})
	}
	all.Wait()
	await.Until(t, "all was looked up", func() bool { return g.Stats().Queued == 0 })
	defer g.Close()
	g.mu.Lock()
	for _, m := range g.members {
		g.removeLocked(m)
	}
	g.mu.Unlock()
	if st := g.Stats(); st.Known != 0 || st.Queued != 0 || st.Waiting != 0 || g.numbers != 0 || len(g.askers) != 0 || g.memory.Held() != 0 || g.places.Held() != 0 {
		t.Errorf("%+v, %d groups, %d clients", st, g.numbers, len(g.askers))
	}
}

// Find of a remembered user allocates no memory.
func TestFindAllocatesNothing(t *testing.T) {
	g := NewGroups(GroupsConfig{Look: func(context.Context, uint32) ([]uint32, bool, error) { return []uint32{1}, true, nil }})
	defer g.Close()
	find(g, oneClient, 1000)
	if n := testing.AllocsPerRun(100, func() { g.Find(oneClient, nil, 1000) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
