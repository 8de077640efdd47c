package identity

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// If the service does not answer, the first call for a user waits for patience, and later calls do
// not wait. Other users get their groups meanwhile, and this user after the answer.
func TestServiceStalls(t *testing.T) {
	inBubble(t, func(t *testing.T, s *service, g *Groups) {
		stall := make(chan struct{})
		s.stalls[1000] = stall
		if _, took, err := find(g, oneClient, 1000); !errors.Is(err, vfs.ErrDelay) || took != patience {
			t.Errorf("%v after %v", err, took)
		}
		if _, took, err := find(g, oneClient, 1000); !errors.Is(err, vfs.ErrDelay) || took != 0 {
			t.Errorf("the next: %v after %v", err, took)
		}
		if !g.Delays(1000) || g.Delays(1001) {
			t.Error("which users are delayed")
		}
		if groups, took, err := find(g, oneClient, 1001); err != nil || len(groups) != 2 || took != 0 {
			t.Errorf("another user: %v, %v after %v", groups, err, took)
		}
		close(stall)
		synctest.Wait()
		if groups, _, err := find(g, oneClient, 1000); err != nil || len(groups) != 2 {
			t.Errorf("at last: %v, %v", groups, err)
		}
		if st := g.Stats(); st.Queued != 0 || st.Waiting != 0 || st.Looked != 2 || st.Delayed != 2 {
			t.Errorf("%+v", st)
		}
	})
}

// After a failed look-up, calls get vfs.ErrDelay, and not every call causes a new look-up. An
// earlier answer is valid for an hour (staleFor).
func TestServiceFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{fails: errors.New("broken")}
		var failed []string
		g := NewGroups(GroupsConfig{Look: s.look, Failed: func(uid uint32, err error) { failed = append(failed, fmt.Sprint(uid, err)) }})
		defer g.Close()
		for range 3 {
			if _, took, err := find(g, oneClient, 1000); !errors.Is(err, vfs.ErrDelay) || took != 0 {
				t.Errorf("%v after %v", err, took)
			}
		}
		if n := s.timesAsked(1000); n != 1 {
			t.Errorf("asked %d times", n)
		}
		time.Sleep(failedFor)
		s.set(func() { s.fails = nil })
		if _, _, err := find(g, oneClient, 1000); err != nil {
			t.Errorf("mended: %v", err)
		}
		s.set(func() { s.fails = errors.New("again") })
		time.Sleep(DefaultAge * 9 / 10)
		for range 2 {
			if groups, err := g.Find(oneClient, nil, 1000); err != nil || len(groups) != 2 {
				t.Errorf("known before: %v, %v", groups, err)
			}
			synctest.Wait()
		}
		time.Sleep(DefaultAge / 10)
		if groups, took, err := find(g, oneClient, 1000); err != nil || len(groups) != 2 || took != 0 {
			t.Errorf("beyond its age: %v, %v after %v", groups, err, took)
		}
		synctest.Wait()
		if want := []string{"1000 broken", "1000 again", "1000 again"}; !slices.Equal(failed, want) {
			t.Errorf("told of %q", failed)
		}
		time.Sleep(staleFor)
		if _, _, err := find(g, oneClient, 1000); !errors.Is(err, vfs.ErrDelay) {
			t.Errorf("too old: %v", err)
		}
		synctest.Wait()
	})
}

// While the service does not answer, Find returns the former groups for an hour. Few calls wait for
// the service, and none waits longer than patience. This also holds after Forget. For users that
// are not known yet, Find returns vfs.ErrDelay.
func TestServiceIsSilent(t *testing.T) {
	for name, forget := range map[string]bool{"answers that grow old": false, "answers that are forgotten": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *service, g *Groups) {
				const users = 2 * maxQueuedOf
				for uid := range uint32(users) {
					if _, _, err := find(g, oneClient, uid); err != nil {
						t.Fatal(err)
					}
				}
				found := time.Now()
				s.set(func() { s.takes, s.fails = 10*time.Second, errors.New("no answer") })
				if forget {
					g.Forget()
				}
				var most time.Duration
				waits := 0
				for time.Since(found) < staleFor-patience {
					var calls sync.WaitGroup
					var mu sync.Mutex
					for uid := range uint32(users) {
						calls.Go(func() {
							groups, took, err := find(g, oneClient, uid)
							mu.Lock()
							defer mu.Unlock()
							most = max(most, took)
							if took > 0 {
								waits++
							}
							// At first, calls beyond maxWaitingOf may get an error instead of the
							// former groups.
							if time.Since(found) > DefaultAge+2*patience && err != nil || err == nil && groups[0] != uid+1 {
								t.Errorf("user %d after %v: %v, %v", uid, time.Since(found), groups, err)
							}
						})
					}
					calls.Wait()
					time.Sleep(47 * time.Second)
				}
				if most > patience || waits > users {
					t.Errorf("%d calls of %d users waited, %v at most", waits, users, most)
				}
				if _, _, err := find(g, otherClient, users); !errors.Is(err, vfs.ErrDelay) {
					t.Errorf("a user who was not known: %v", err)
				}
				time.Sleep(2 * patience)
				if _, _, err := find(g, oneClient, 1); !errors.Is(err, vfs.ErrDelay) {
					t.Errorf("after an hour: %v", err)
				}
				s.set(func() { s.takes, s.fails = 0, nil })
				time.Sleep(time.Minute)
				if _, _, err := find(g, oneClient, 1); err != nil {
					t.Errorf("when it answers: %v", err)
				}
			})
		})
	}
}

// A look-up that Close cancels does not count as a failure of the service.
func TestCloseTellsOfNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{stalls: map[uint32]chan struct{}{1000: make(chan struct{})}}
		g := NewGroups(GroupsConfig{Look: s.look, Failed: func(uid uint32, err error) {
			t.Errorf("user %d: %v", uid, err)
		}})
		go find(g, oneClient, 1000)
		synctest.Wait()
		g.Close()
		synctest.Wait()
	})
}

// Users whose look-ups fail do not displace users whose groups are known. So while the service does
// not answer, Find keeps the former groups, however many users a client asks for.
func TestFailedUsersPushNoGroupsOut(t *testing.T) {
	inBubble(t, func(t *testing.T, s *service, g *Groups) {
		if _, _, err := find(g, oneClient, 1000); err != nil {
			t.Fatal(err)
		}
		s.set(func() { s.fails = errors.New("down") })
		for uid := range uint32(maxMembersOf + 1) {
			if _, _, err := find(g, oneClient, 2000+uid); !errors.Is(err, vfs.ErrDelay) {
				t.Fatalf("user %d: %v", 2000+uid, err)
			}
		}
		if n := g.Stats().Known; n > maxMembersOf {
			t.Errorf("%d users are remembered", n)
		}
		time.Sleep(DefaultAge)
		if groups, _, err := find(g, otherClient, 1000); err != nil || !slices.Equal(groups, []uint32{1001, 1002}) {
			t.Errorf("the groups of before: %v, %v", groups, err)
		}
	})
}
