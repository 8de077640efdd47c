//go:build hostile

package hostile

import (
	"fmt"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// The daemon stays fast when a file has very many locks. Three clients lock 16,384 bytes of a
// file by 8,193 lock-owners, and 16 other clients ask for these bytes all the time. Two of the
// three clients close the file, lock their bytes again, and are then silent until their leases
// end. Each of these must meet the bound of a READ: a CLOSE, the first LOCK after the CLOSE, the
// first LOCK after the end of a lease, and 99 of 100 LOCKs that are denied. So must each call
// that a client makes in another export meanwhile.
func TestVeryManyLocksOfAFile(t *testing.T) {
	const (
		places = 8192
		lease  = 10 * time.Second
	)
	from := []int{16}
	if everything() {
		from = append(from, 1)
	}
	for _, addresses := range from {
		t.Run(fmt.Sprintf("from %d addresses", addresses), func(t *testing.T) {
			s := stage(t, Config{Memory: `state = "160M"`, NFS: fmt.Sprintf("lease_time = %q", lease)})
			s.Held = 160 * mib * 3 / 8 // the part of memory.state for opens and locks
			s.Sessions()
			source := Strangers(addresses)
			b := LockAskers{Askers: 16, Places: places, Owners: 100, In: s.Secured, LockAnswers: &LockAnswers{}}
			a := s.Attack(b, source)
			await.Until(t, "all ask", func() bool { return a.Standing.Load() == int64(a.Peers) || a.Refused.Load() > 0 })

			took := make(map[string]time.Duration)
			var beside time.Duration
			s.JudgeSeriesWhile(func() {
				measured := make(chan time.Duration, 1)
				go func() { measured <- s.control.measure(s.ctx, "rdma", readsJudged, readEvery) }()
				prober, err := fileClient(s.ctx, s.Target(source), addresses-1, 1, s.Secured)
				if err != nil {
					t.Fatal(err)
				}
				take := func(what string, h lockHolder) (denied int) {
					t.Helper()
					denied, longest, err := prober.take(s.ctx, h.first, lease+await.Limit)
					if err != nil {
						t.Fatalf("%s: %v", what, err)
					}
					took[what] = max(took[what], longest)
					return denied
				}

				begin := time.Now()
				holders, _, err := lockHolders(s.ctx, s.Target(source), s.Secured, places)
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("all is locked after %s", inWords(time.Since(begin)))
				begin = time.Now()
				if err := atOnce(holders, func(h lockHolder) error { return h.close() }); err != nil {
					t.Fatalf("CLOSE: %v", err)
				}
				took["CLOSE"] = time.Since(begin)
				for _, h := range holders {
					if n := take("LOCK after CLOSE", h); n > 0 {
						t.Errorf("what is closed is denied %d times", n)
					}
				}
				holders, renewed, err := lockHolders(s.ctx, s.Target(source), s.Secured, places)
				if err != nil {
					t.Fatal(err)
				}
				for _, h := range holders {
					n := take("LOCK until a lease has ended", h)
					ended := time.Since(renewed)
					t.Logf("the lease has ended %s after the last call, and %d LOCKs", inWords(ended), n)
					if ended < lease {
						t.Errorf("a lock is another client's after %v, within a lease", ended)
					}
				}
				beside = <-measured
			}, Null, Read, Names, Locks)
			s.JudgeClients()
			bound := s.bound("rdma", beside)
			n, p99, worst := b.soFar()
			t.Logf("%d LOCKs were denied, the slowest after %s", n, inWords(worst))
			took["99 of 100 LOCKs that are denied"] = p99
			for what, longest := range took {
				t.Logf("%s: %s at most; allowed %v", what, inWords(longest), bound)
				if longest > bound {
					t.Errorf("%s takes %v, %v at most is allowed", what, longest, bound)
				}
			}
			if a.Refused.Load() > 0 || a.Ended.Load() > 0 {
				t.Errorf("the daemon sends peers away: %v", a)
			}
			s.JudgeFaults()
			s.JudgeMemory()
			s.JudgeEnd()
		})
	}
}
