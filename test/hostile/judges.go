package hostile

import (
	"context"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

const (
	// promptly is the longest time that a READ of one byte, or the arrival of an honest client,
	// may take during an attack.
	promptly = time.Second
	// If a READ took longer than promptly/factor before the attack, or takes longer than that at
	// the control daemon, the machine is slow. A READ may then take factor times the longer of
	// these two times, instead of promptly.
	factor = 20
	// slack is the memory, in bytes, that a daemon may take beyond its idle memory, its limit on
	// payload memory and the memory for the state of NFSv4 clients (Stage.Held).
	slack = 64 * mib
	// parting is the time, in addition to its drain_timeout, that a daemon may take to end.
	parting = 2 * time.Second
)

// Numbers of samples of honest clients, and the intervals between samples.
const (
	readsBefore    = 9 // before an attack
	readsJudged    = 12
	readEvery      = 200 * time.Millisecond
	arrivalsJudged = 5
	arriveEvery    = 480 * time.Millisecond
)

// bound returns the longest time that a READ over a transport may take. The parameter beside is the
// time that a READ takes at the control daemon at the same time.
func (s *Stage) bound(transport string, beside time.Duration) time.Duration {
	return max(promptly, factor*max(s.usual[transport], beside))
}

// Judge tests during the attacks that honest clients are served (JudgeClients), and that the
// daemon's memory does not exceed its limit (JudgeMemory). Then it tests that the daemon ends in
// time (JudgeEnd). Each of these is a subtest.
func (s *Stage) Judge() {
	s.t.Helper()
	s.JudgeClients()
	s.JudgeMemory()
	s.JudgeEnd()
}

// JudgeClients judges READs of a byte by clients that connected before the attack. It also judges
// the arrival of new clients: connection, MNT, LOOKUP and READ.
func (s *Stage) JudgeClients() {
	s.t.Helper()
	s.JudgeClientsOf(openName)
}

// JudgeClientsOf is JudgeClients, except that the new clients mount the given exports in turn.
func (s *Stage) JudgeClientsOf(exports ...string) {
	s.t.Helper()
	s.judge(func(judge judging) {
		s.judgeSessions(judge)
		for _, transport := range Transports {
			judge("READ over "+transport, transport, readsJudged, readEvery, func(ctx context.Context, i int) error {
				// These files are not open in the daemon yet, because prepare has read other
				// files.
				return s.honest[transport].readOne(ctx, readsBefore+i)
			})
			judge("arrival over "+transport, transport, arrivalsJudged, arriveEvery, func(ctx context.Context, i int) error {
				c, err := s.arrive(ctx, transport, exports[i%len(exports)], honestName(i))
				if err != nil {
					return err
				}
				defer c.Close()
				return c.readOne(ctx, 0)
			})
		}
	})
}

// JudgeNames judges a client that connected before the attack and that creates and removes files.
// Both calls for a file together may take as long as a READ (see bound).
func (s *Stage) JudgeNames() {
	s.t.Helper()
	s.judge(func(judge judging) {
		for _, transport := range Transports {
			judge("CREATE and REMOVE over "+transport, transport, readsJudged/2, 2*readEvery, func(ctx context.Context, i int) error {
				return s.honest[transport].makeOne(ctx, s.Open.Root, fmt.Sprint("made over ", transport, i))
			})
		}
	})
}

// JudgePrivileged judges NFSv4.1 clients that connect over TCP from a privileged port, as kernel
// clients do. Each of these arrivals may take as long as a READ (see bound).
func (s *Stage) JudgePrivileged() {
	s.t.Helper()
	s.judge(func(judge judging) {
		judge("arrival from a privileged port", "tcp", arrivalsJudged, arriveEvery, func(ctx context.Context, i int) error {
			h, err := s.arrive4(ctx, "tcp", openName)
			if err != nil {
				return err
			}
			defer h.Session.Abandon()
			return h.openOne(ctx, i)
		})
	})
}

// A judging function calls ask n times over a transport, once every interval, and judges the
// results.
type judging func(name, transport string, n int, every time.Duration, ask func(context.Context, int) error)

// judge judges several clients at the same time, each in a subtest. Meanwhile a client of the
// control daemon makes READs to measure the machine.
func (s *Stage) judge(ask func(judge judging)) {
	s.t.Helper()
	type judged struct {
		name, transport string
		summary         chan summary
	}
	var all []judged
	beside := make(map[string]chan time.Duration)
	for _, transport := range Transports {
		median := make(chan time.Duration, 1)
		beside[transport] = median
		go func() { median <- s.control.measure(s.ctx, transport, readsJudged, readEvery) }()
	}
	ask(func(name, transport string, n int, every time.Duration, ask func(context.Context, int) error) {
		j := judged{name, transport, make(chan summary, 1)}
		all = append(all, j)
		go func() { j.summary <- summarize(samples(s.ctx, n, every, ask)) }()
	})
	bounds := make(map[string]time.Duration)
	for transport, median := range beside {
		bounds[transport] = s.bound(transport, <-median)
	}
	for _, j := range all {
		got := <-j.summary
		s.t.Run(j.name, func(t *testing.T) { s.verdict(t, got, bounds[j.transport]) })
	}
	for _, a := range s.attacks {
		s.t.Logf("while judged: %v; the daemon has %d descriptors open", a, s.Descriptors())
	}
	if !s.Alive() {
		s.t.Errorf("the daemon has ended: %s\n%s", s.why(), s.lastLines())
	}
}

// verdict fails the test unless the median is at most bound and every sample has an answer.
func (s *Stage) verdict(t *testing.T, got summary, bound time.Duration) {
	t.Helper()
	t.Logf("%v; allowed %v", got, bound.Round(time.Millisecond))
	if got.median > bound {
		t.Errorf("the median is %s, %v at most is allowed: %v", inWords(got.median), bound, got)
	} else if got.failed > 0 {
		t.Errorf("not everything is answered: %v", got)
	}
}

// seriesPromptly is the time within which 99 of 100 calls of an honest client must end during an
// attack. The client makes its calls one at a time.
const seriesPromptly = 100 * time.Millisecond

// During an attack an honest client must get at least 1/leastShare of its share. Its share is the
// number of calls that the client of the control daemon makes in the same time, divided by the
// number of rivals. The hostile peers' own throughput is no measure, because a peer with many calls
// under way can use all the time that the daemon gives it, and a client with one call at a time
// cannot.
const leastShare = 10

// rivals returns the number of parties among which the daemon divides its time, the honest client
// included. This is the number of client addresses, or the number of connections with the honest
// client's address, whichever is larger.
func (s *Stage) rivals() int {
	honest := HonestAddress
	if s.TCP.Addr().Is6() {
		honest = HonestAddress6
	}
	addresses := map[netip.Addr]int{clientaddr.Of(honest): 1}
	for _, a := range s.attacks {
		if a.over {
			continue
		}
		for i := range a.Peers {
			addresses[clientaddr.Of(a.source(i))]++
		}
	}
	return max(len(addresses), addresses[clientaddr.Of(honest)])
}

// JudgeSeries judges clients, each in a process of its own, that repeat a Work, one call at a time.
// Another process does the same at the control daemon at the same time. 99 of 100 calls must end
// within seriesPromptly, or, if that is longer, within the time within which 99 of 100 calls end at
// the control daemon, times leastShare, times the number of rivals. Each client must make at least
// 1/leastShare of its share of calls (see leastShare).
func (s *Stage) JudgeSeries(works ...Work) {
	s.t.Helper()
	for _, work := range works {
		for _, transport := range Transports {
			s.startJudged(transport, work, false, true)()
		}
	}
}

// JudgeDelays is JudgeSeries, but does not judge how many calls a client makes. Calls of one client
// that need a worker wait until another client's compound has used its turn of 500 us, so that a
// client which makes one call at a time may make fewer of them.
func (s *Stage) JudgeDelays(works ...Work) {
	s.t.Helper()
	for _, work := range works {
		for _, transport := range Transports {
			s.startJudged(transport, work, false, false)()
		}
	}
}

// JudgeSeriesWhile is JudgeSeries with two differences. All clients work at the same time, while
// the function do runs. It does not judge how many calls a client makes. Instead, no call may take
// longer than promptly, or than factor times the slowest call at the control daemon, if that is
// longer.
func (s *Stage) JudgeSeriesWhile(do func(), works ...Work) {
	s.t.Helper()
	var ends []func()
	for _, work := range works {
		for _, transport := range Transports {
			ends = append(ends, s.startJudged(transport, work, true, false))
		}
	}
	do()
	for _, end := range ends {
		end()
	}
}

// startJudged starts a Series at the attacked daemon and one at the control daemon. The function
// end waits for both, and judges the Series at the attacked daemon. See startSeries for the
// parameter steady. If shares is true, end also judges how many calls the client made.
func (s *Stage) startJudged(transport string, work Work, steady, shares bool) (end func()) {
	ends := [...]func() (Series, error){s.startSeries(transport, work, steady), s.control.daemon.startSeries(transport, work, steady)}
	return func() {
		s.t.Helper()
		s.t.Run(string(work)+" over "+transport, func(t *testing.T) {
			var got [len(ends)]Series
			for i, end := range ends {
				var err error
				if got[i], err = end(); err != nil {
					t.Fatal(err)
				}
			}
			n, beside := got[0], got[1]
			rivals := s.rivals()
			share := beside.rate() / float64(rivals)
			t.Logf("%v; beside: %v; its share: %.0f a second", n, beside, share)
			most, longest := max(seriesPromptly, time.Duration(leastShare*rivals)*beside.P99), max(promptly, factor*beside.Worst)
			switch {
			case n.Failed > 0:
				t.Errorf("not everything is answered: %v", n)
			case n.P99 > most:
				t.Errorf("99 of 100 within %v, %v at most is allowed", n.P99, most)
			case shares && n.rate() < share/leastShare:
				t.Errorf("%.0f a second, less than a part in %d of its share, %.0f", n.rate(), leastShare, share)
			case steady && n.Worst > longest:
				t.Errorf("one takes %v, %v at most is allowed", n.Worst, longest)
			}
		})
	}
}

// JudgeListings judges READDIRs of a small directory by clients that connected before the attack.
// Each READDIR may take as long as a READ (see bound).
func (s *Stage) JudgeListings() {
	s.t.Helper()
	for _, transport := range Transports {
		beside := make(chan time.Duration, 1)
		go func() { beside <- s.control.measure(s.ctx, transport, readsJudged/2, readEvery) }()
		got := summarize(samples(s.ctx, readsJudged/2, readEvery, func(ctx context.Context, _ int) error {
			return s.honest[transport].list(ctx, s.Closed.Many)
		}))
		s.t.Run("READDIR over "+transport, func(t *testing.T) { s.verdict(t, got, s.bound(transport, <-beside)) })
	}
}

// JudgeLarge tests that a client on each transport, all at the same time, reads a file of 3 MiB
// within the time limit.
func (s *Stage) JudgeLarge(limit time.Duration) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	ends := make(map[string]chan sample)
	for _, transport := range Transports {
		end := make(chan sample, 1)
		ends[transport] = end
		go func() {
			c := s.honest[transport]
			begin := time.Now()
			err := c.readAll(ctx, c.files[honestFiles], largeSize)
			end <- sample{time.Since(begin), err}
		}()
	}
	for _, transport := range Transports {
		end := <-ends[transport]
		s.t.Run("3 MiB over "+transport, func(t *testing.T) {
			t.Logf("%v", end.took.Round(time.Millisecond))
			if end.err != nil {
				t.Errorf("a file of 3 MiB is not read within %v: %v", limit, end.err)
			}
		})
	}
}

// JudgeMegabytes tests that a client on each transport reads 1 MiB and writes 1 MiB within the time
// limit.
func (s *Stage) JudgeMegabytes(when string, limit time.Duration) {
	s.t.Helper()
	for _, transport := range Transports {
		s.t.Run("1 MiB over "+transport+" "+when, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(s.ctx, limit)
			defer cancel()
			c, begin := s.honest[transport], time.Now()
			file, b := c.files[honestFiles], make([]byte, mib)
			if n, err := c.Read(ctx, file, 0, b); n != len(b) || err != nil {
				t.Errorf("READ: %d bytes, %v", n, err)
			}
			if n, err := c.Write(ctx, file, 0, b, nfs3wire.FileSync); n != len(b) || err != nil {
				t.Errorf("WRITE: %d bytes, %v", n, err)
			}
			t.Logf("%v", time.Since(begin).Round(time.Millisecond))
		})
	}
}

// JudgeMemory judges the peak of the daemon's resident memory. The limit is the sum of four
// amounts: the resident memory before the attack, the ceiling of payload memory, the memory for the
// state of NFSv4 clients (Held), and slack.
func (s *Stage) JudgeMemory() {
	s.t.Helper()
	s.t.Run("memory", func(t *testing.T) {
		peak := s.Peak()
		if !s.Alive() {
			t.Fatalf("the daemon has ended: %s", s.why())
		}
		t.Logf("idle %d MiB, ceiling %d MiB, at most %d MiB", s.idle/mib, s.Ceiling/mib, peak/mib)
		if most := s.idle + s.Ceiling + s.Held + slack; peak > most {
			t.Errorf("the daemon takes %d MiB, %d MiB at most is allowed", peak/mib, most/mib)
		}
	})
}

// idleConnection is the largest amount of the daemon's memory that an idle connection may take,
// in bytes.
const idleConnection = 64 * kib

// JudgeIdle tests that all idle clients are still connected and that each takes at most
// idleConnection of memory.
func (s *Stage) JudgeIdle(a *Attack) {
	s.t.Helper()
	s.t.Run("idle", func(t *testing.T) {
		if n := a.Standing.Load(); n != int64(a.Peers) {
			t.Errorf("%d of %d clients are there: %v", n, a.Peers, a)
		}
		each := (s.Resident() - s.idle) / a.Peers
		t.Logf("%d bytes for each of %d connections, %d descriptors", each, a.Peers, s.Descriptors())
		if each > idleConnection {
			t.Errorf("an idle connection takes %d bytes, %d at most is allowed", each, idleConnection)
		}
	})
}

// fewerWithin is the longest time that the daemon may keep connections of peers that never sent
// anything.
const fewerWithin = 12 * time.Second

// JudgeFewer tests that the daemon ends connections of peers that never sent anything. Within
// fewerWithin it must end at least a.Peers - most connections.
func (s *Stage) JudgeFewer(a *Attack, most int64) {
	s.t.Helper()
	s.t.Run("deadline", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(s.ctx, fewerWithin)
		defer cancel()
		least := a.Ended.Load()
		for ctx.Err() == nil && a.Ended.Load()-least < int64(a.Peers)-most {
			wait(ctx, 100*time.Millisecond)
		}
		t.Logf("%v", a)
		if ctx.Err() != nil {
			t.Errorf("peers that never said anything stand for %v: %v", fewerWithin, a)
		}
	})
}

// JudgeFaults fails the test if the daemon logged a fault of the server, for example a panic in a
// call.
func (s *Stage) JudgeFaults() {
	s.t.Helper()
	s.t.Run("faults", func(t *testing.T) {
		if at := strings.Index(s.Output(), "fault of the server"); at >= 0 {
			t.Errorf("a call was ended by a fault:\n%s", s.Output()[at:min(at+4096, len(s.Output()))])
		}
	})
}

// reaping is the time that the kernel of a busy machine may take to remove a process that has
// ended.
const reaping = 5 * time.Second

// saysEnd matches the duration of the daemon's shutdown in the log line that reports the
// shutdown.
var saysEnd = regexp.MustCompile(`"took": "([^"]+)"`)

// endedWithin reports whether the last shutdown in the daemon's log took no longer than `limit`.
func endedWithin(log string, limit time.Duration) bool {
	all := saysEnd.FindAllStringSubmatch(log, -1)
	if len(all) == 0 {
		return false
	}
	took, err := time.ParseDuration(all[len(all)-1][1])
	return err == nil && took <= limit
}

// JudgeEnd sends SIGTERM to the daemon during the attacks and tests that it ends in time.
func (s *Stage) JudgeEnd() {
	s.t.Helper()
	s.t.Run("SIGTERM", func(t *testing.T) {
		if !s.Alive() {
			t.Fatalf("the daemon has ended before: %s", s.why())
		}
		limit := Drain + parting
		begin := time.Now()
		if err := syscall.Kill(s.PID(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		late := time.NewTimer(limit + Patience)
		defer late.Stop()
		select {
		case <-s.Done():
			took := time.Since(begin)
			t.Logf("the daemon ends after %v", took.Round(time.Millisecond))
			// The daemon has released everything when it logs its shutdown. Time that its process
			// takes after that is the kernel's, which is slow to remove a process on a busy
			// machine.
			if took > limit && (took > limit+reaping || !endedWithin(s.lastLines(), limit)) {
				t.Errorf("the daemon ends after %v, %v at most is allowed; it said:\n%s", took, limit, s.lastLines())
			}
		case <-late.C:
			t.Errorf("the daemon does not end within %v, %v at most is allowed; it said:\n%s", limit+Patience, limit, s.lastLines())
		}
	})
}
