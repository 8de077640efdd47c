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
)

const (
	// promptly is the time within which a READ of one byte, or an arrival, must end for an honest
	// client during an attack.
	promptly = time.Second
	// The machine is slow if a READ took longer than promptly/factor before the attack, or takes
	// so long at the daemon that is not attacked. On a slow machine a READ may take factor times
	// that.
	factor = 20
	// slack is the memory that a daemon may take beyond its idle memory and its ceiling of
	// payload memory, in bytes.
	slack = 64 * mib
	// parting is the time that a daemon may take to end, beyond its drain_timeout.
	parting = 2 * time.Second
)

// Numbers of samples of honest clients, and the times between two of them.
const (
	readsBefore    = 9 // before an attack
	readsJudged    = 12
	readEvery      = 200 * time.Millisecond
	arrivalsJudged = 5
	arriveEvery    = 480 * time.Millisecond
)

// bound returns the time that a READ may take over a transport, if one takes the time beside at
// the daemon that is not attacked.
func (s *Stage) bound(transport string, beside time.Duration) time.Duration {
	return max(promptly, factor*max(s.usual[transport], beside))
}

// Judge judges honest clients while the attacks stand, the daemon's memory, and its end. Each is
// a subtest.
func (s *Stage) Judge() {
	s.t.Helper()
	s.JudgeClients()
	s.JudgeMemory()
	s.JudgeEnd()
}

// JudgeClients judges READs of a byte by a client that was there before the attack, and clients
// that arrive: set-up, MNT, LOOKUP, READ.
func (s *Stage) JudgeClients() {
	s.t.Helper()
	s.JudgeClientsOf(openName)
}

// JudgeClientsOf is JudgeClients with arriving clients that mount one of several exports in turn.
func (s *Stage) JudgeClientsOf(exports ...string) {
	s.t.Helper()
	s.judge(func(judge judging) {
		s.judgeSessions(judge)
		for _, transport := range Transports {
			judge("READ over "+transport, transport, readsJudged, readEvery, func(ctx context.Context, i int) error {
				// These files are not open yet: prepare has read others.
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

// JudgeNames judges a client that was there before the attack and creates and removes files. It
// has the bounds of a READ.
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

// JudgePrivileged judges clients that arrive over TCP from a port that only root can use, as a
// kernel's mounts do. They have the bounds of a READ.
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

// judging runs ask n times over a transport, once every interval, and judges the results.
type judging func(name, transport string, n int, every time.Duration, ask func(context.Context, int) error)

// judge judges several clients at the same time, each in a subtest. Meanwhile a client of the
// daemon that is not attacked makes READs.
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

// verdict fails the test unless the median is within the bound and every sample has an answer.
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
// attack, if it makes them one at a time.
const seriesPromptly = 100 * time.Millisecond

// leastShare is the part of its share that a client gets at least during an attack: one in so
// many. Its share is the number of calls that it would make in the same time at a daemon that is
// not attacked, divided by the number of rivals. A client that makes one call at a time cannot use
// up a turn as peers do that have many calls under way. So the calls of these are no measure.
const leastShare = 10

// rivals returns how many take turns at the daemon, the honest client included: client addresses;
// or connections, if the peers have the honest client's address.
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

// JudgeSeries judges clients, each in a process of its own, that do a Work one call at a time.
// Another process does the same at the daemon that is not attacked, in the same time. If its calls
// take long, the bound is longer: leastShare times as long for each rival. Each client gets a part
// of its share (leastShare).
func (s *Stage) JudgeSeries(works ...Work) {
	s.t.Helper()
	for _, work := range works {
		for _, transport := range Transports {
			s.startJudged(transport, work, false)()
		}
	}
}

// JudgeSeriesWhile is JudgeSeries for clients that all work at the same time, as long as do runs.
// In addition, none of their calls may take longer than a READ.
func (s *Stage) JudgeSeriesWhile(do func(), works ...Work) {
	s.t.Helper()
	var ends []func()
	for _, work := range works {
		for _, transport := range Transports {
			ends = append(ends, s.startJudged(transport, work, true))
		}
	}
	do()
	for _, end := range ends {
		end()
	}
}

// startJudged starts a Series at both daemons, and judges it when end is called.
func (s *Stage) startJudged(transport string, work Work, steady bool) (end func()) {
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
			case !steady && n.rate() < share/leastShare:
				t.Errorf("%.0f a second, less than a part in %d of its share, %.0f", n.rate(), leastShare, share)
			case steady && n.Worst > longest:
				t.Errorf("one takes %v, %v at most is allowed", n.Worst, longest)
			}
		})
	}
}

// JudgeListings is about READDIRs of a small directory by a client that is there
// already. They have the bounds of a READ.
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

// JudgeLarge reads a file of 3 MiB over each transport within limit, at the same
// time.
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

// JudgeMemory judges the peak of the daemon's resident memory.
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

// idleConnection is the memory that an idle connection may take of the daemon, in bytes.
const idleConnection = 64 * kib

// JudgeIdle judges idle clients: all of them still stand, and each takes little memory.
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

// fewerWithin is the longest time that the daemon may keep peers that never said anything.
const fewerWithin = 12 * time.Second

// JudgeFewer waits until the daemon has ended peers that never said anything, and at most the
// number most still stand.
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

// JudgeFaults fails the test if a fault of the daemon ended a call.
func (s *Stage) JudgeFaults() {
	s.t.Helper()
	s.t.Run("faults", func(t *testing.T) {
		if at := strings.Index(s.Output(), "fault of the server"); at >= 0 {
			t.Errorf("a call was ended by a fault:\n%s", s.Output()[at:min(at+4096, len(s.Output()))])
		}
	})
}

// reaping is the time that a busy machine may take to remove a process that has ended.
const reaping = 5 * time.Second

// saysEnd finds the duration of the daemon's end in the last line but one of its log.
var saysEnd = regexp.MustCompile(`"took": "([^"]+)"`)

// endedWithin reports whether the daemon's log has an end that took limit at most.
func endedWithin(log string, limit time.Duration) bool {
	all := saysEnd.FindAllStringSubmatch(log, -1)
	if len(all) == 0 {
		return false
	}
	took, err := time.ParseDuration(all[len(all)-1][1])
	return err == nil && took <= limit
}

// JudgeEnd ends the daemon by SIGTERM while the attacks stand.
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
			// The daemon has released everything when it logs its end. The time that its process
			// takes after that is the machine's: a busy machine is slow to remove a process.
			if took > limit && (took > limit+reaping || !endedWithin(s.lastLines(), limit)) {
				t.Errorf("the daemon ends after %v, %v at most is allowed; it said:\n%s", took, limit, s.lastLines())
			}
		case <-late.C:
			t.Errorf("the daemon does not end within %v, %v at most is allowed; it said:\n%s", limit+Patience, limit, s.lastLines())
		}
	})
}
