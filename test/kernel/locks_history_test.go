//go:build kernel

package kernel

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"pgregory.net/rapid"

	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// TestLocksHistory has 32 owners on a client of version 3, on one of version 4.2, and on the server's machine lock the same
// ranges by fcntl, open file descriptions, lockf and flock. Some owners are killed. One history of all must be
// possible. NFSRDMAD_LOCKS_SECONDS is the least duration.
func TestLocksHistory(t *testing.T) {
	needsDaemon(t)
	t.Parallel()
	seconds := fromEnvironment(t, "NFSRDMAD_LOCKS_SECONDS", 15)
	s := serveLocks(t)
	h := s.beginHistory(seconds)
	local := s.network.Command(build(t, "test/kernel/worker"), "owners", h.address, s.folder, "10", "local")
	clients := h.clients(seconds)
	out, err := local.CombinedOutput()
	if err != nil {
		t.Errorf("the owners on the server's machine: %v\n%s", err, out)
	}
	for _, g := range clients {
		g.Succeed()
	}
	h.check()
}

// TestLocksHistoryOverARestart is TestLocksHistory with owners on the clients alone, whose locks last while the daemon is
// killed and started again.
func TestLocksHistoryOverARestart(t *testing.T) {
	if !everything() {
		t.Skip("make test-all runs this test")
	}
	needsDaemon(t)
	t.Parallel()
	s := serveLocks(t, "--config", shortLease(t))
	const seconds = 60
	h := s.beginHistory(seconds)
	clients := h.clients(seconds)
	h.grows(200)
	s.daemon.Kill()
	s.daemon.Start()
	h.grows(50)
	for _, g := range clients {
		g.Succeed()
	}
	h.check()
}

// A history is what owners of locks did, in the order in which their witness has heard of it.
type history struct {
	s             *server
	address, file string
}

// beginHistory makes the files, and starts the witness. The history lasts for at least this number of seconds, and until
// it has all that check wants.
func (s *server) beginHistory(seconds int) *history {
	s.t.Helper()
	for _, name := range []string{"locked0", "locked1"} {
		if err := os.WriteFile(filepath.Join(s.folder, name), make([]byte, 100), 0o666); err != nil {
			s.t.Fatal(err)
		}
	}
	h := &history{s, lab.Host + ":7777", filepath.Join(s.t.TempDir(), "history")}
	witness := s.network.Command(build(s.t, "test/kernel/worker"), "witness", h.address, h.file, fmt.Sprint(seconds))
	witness.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := witness.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = witness.Process.Kill()
		_ = witness.Wait()
	})
	return h
}

// clients starts owners on two clients, one of version 3 and one of version 4.2.
func (h *history) clients(seconds int) (all []*lab.Guest) {
	for _, how := range []string{"tcp", "rdma/4.2"} {
		limit := time.Duration(seconds)*time.Second + 15*time.Minute
		all = append(all, h.s.boot(lab.Options{Limit: limit}, "locks_history", how, h.address, "11"))
	}
	for _, g := range all {
		g.Await("mounted")
	}
	for _, g := range all {
		g.Signal("begin")
	}
	return all
}

// grows waits until the history has some lines more.
func (h *history) grows(lines int) {
	h.s.t.Helper()
	has := func() int {
		text, err := os.ReadFile(h.file)
		if err != nil {
			h.s.t.Fatal(err)
		}
		return strings.Count(string(text), "\n")
	}
	until := has() + lines
	if !await.Within(10*time.Minute, func() bool { return has() >= until }) { // a grace period may come first
		h.s.t.Fatalf("the owners do not go on: %d lines, and not %d", has(), until)
	}
}

// A lockCall is one call of an owner. Its result is "" if the owner was killed before it had one.
type lockCall struct {
	who    int
	at     int
	lock   bool // or unlock
	write  bool
	how    string
	result string
	// strict is true if a refusal has to have a reason: no owner waits for the range, and none is killed.
	strict bool
}

// strictRanges is as in worker/owners.go.
const strictRanges = 2

// held is the state of one range.
type held struct {
	writer  int // 1 more than the number of the owner
	readers string
}

// locksOnce is the model of one range: an exclusive lock excludes all others.
var locksOnce = porcupine.Model{
	Init: func() any { return held{} },
	Step: func(state, input, _ any) (bool, any) {
		h, c := state.(held), input.(*lockCall)
		me := fmt.Sprintf("%d,", c.who)
		switch {
		case !c.lock:
			if h.writer == c.who+1 {
				h.writer = 0
				return true, h
			}
			is := strings.Contains(","+h.readers, ","+me)
			h.readers = strings.TrimPrefix(strings.Replace(","+h.readers, ","+me, ",", 1), ",")
			return is || c.result == "", h
		case c.result == "refused":
			return !c.strict || h.writer != 0 || c.write && h.readers != "", h
		case h.writer != 0 || c.write && h.readers != "":
			return false, h
		case c.write:
			h.writer = c.who + 1
		default:
			h.readers += me
		}
		return true, h
	},
	DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%+v", *input.(*lockCall)) },
}

// check judges the history.
func (h *history) check() {
	t := h.s.t
	t.Helper()
	text, err := os.ReadFile(h.file)
	if err != nil {
		t.Fatal(err)
	}
	parts, counts := readLocks(string(text))
	t.Log(counts)
	for _, how := range []string{"fcntl", "ofd", "lockf", "flock", "refused"} {
		if counts[how] == 0 {
			t.Errorf("no %s in the history, which shows nothing then", how)
		}
	}
	for at, part := range parts {
		if result := judgeLocks(at, part); result != porcupine.Ok {
			kept := filepath.Join(os.TempDir(), fmt.Sprintf("nfsrdmad-locks-%d", os.Getpid()))
			_ = os.WriteFile(kept, text, 0o644)
			t.Errorf("range %d: the history is %s: see %s", at, result, kept)
		}
	}
}

// judgeLocks judges the history of one range. If every refusal is possible there, intervals decide, because the
// time that porcupine takes grows with the square of the length.
func judgeLocks(at int, part []porcupine.Operation) porcupine.CheckResult {
	if at < strictRanges {
		return porcupine.CheckOperationsTimeout(locksOnce, part, time.Minute)
	}
	if locksOverlap(part) {
		return porcupine.Illegal
	}
	return porcupine.Ok
}

// A holding is a time in which an owner surely has a lock: from the answer to LOCK until the word before UNLOCK, or until
// the owner may have been killed.
type holding struct {
	write    bool
	from, to int64
}

// locksOverlap reports whether a history in which every refusal is possible cannot have happened. It is possible if each lock
// is got as late, and given up as early, as the words allow, because an owner that has less disturbs no other. An owner that
// may have been killed before the answer to its LOCK needs only one moment before that answer.
func locksOverlap(part []porcupine.Operation) bool {
	byOwner := make(map[int][]porcupine.Operation)
	for _, o := range part {
		if o.Input.(*lockCall).result != "refused" {
			byOwner[o.ClientId] = append(byOwner[o.ClientId], o)
		}
	}
	var all, moments []holding
	for _, calls := range byOwner {
		for i, o := range calls {
			c := o.Input.(*lockCall)
			if !c.lock {
				if c.result != "" && (i == 0 || !calls[i-1].Input.(*lockCall).lock) {
					return true
				}
				continue
			}
			h := holding{c.write, o.Return, math.MaxInt64}
			if i+1 < len(calls) {
				h.to = calls[i+1].Call
			}
			if h.to > h.from {
				all = append(all, h)
			} else {
				moments = append(moments, holding{c.write, max(o.Call, h.to), o.Return})
			}
		}
	}
	slices.SortFunc(all, func(a, b holding) int { return cmp.Compare(a.from, b.from) })
	var anybody, writer int64 // the ends of what is held so far, by any owner, and by one with a write lock
	for _, h := range all {
		if h.from < writer || h.write && h.from < anybody {
			return true
		}
		if anybody = max(anybody, h.to); h.write {
			writer = h.to
		}
	}
	for _, m := range moments {
		free := m.from // the range is not free between m.from and this time
		for _, h := range all {
			if h.from > free {
				break
			}
			if m.write || h.write {
				free = max(free, h.to)
			}
		}
		if free > m.to {
			return true
		}
	}
	return false
}

// readLocks returns the calls about each range, and how many there are of each result and of each kind of lock granted.
func readLocks(text string) (parts map[int][]porcupine.Operation, counts map[string]int) {
	parts, counts = make(map[int][]porcupine.Operation), make(map[string]int)
	// The call under way, the lock held, and the times of the last word and of the one before, of each owner.
	open, holds, words := map[int]*porcupine.Operation{}, map[int]*lockCall{}, map[int][2]int64{}
	grants := map[int][]int64{} // the times of the grants of each range
	// given returns the time from which the kernel may give up the lock of a range for an owner that was killed. The witness
	// may hear of a grant to another owner before it hears the last word of this one, which had no answer yet. The word
	// before had one. Without such a grant the later time is as good, and the judge has much less to try.
	given := func(who, at int) int64 {
		before, last := words[who][0], words[who][1]
		if i, _ := slices.BinarySearch(grants[at], before+1); i < len(grants[at]) && grants[at][i] < last {
			return before
		}
		return last
	}
	end := func(who int, result string, at int64) {
		o := open[who]
		delete(open, who)
		c := o.Input.(*lockCall)
		c.result, o.Return = result, at
		counts[result]++
		if result == "ok" {
			if delete(holds, who); c.lock {
				holds[who] = c
				grants[c.at] = append(grants[c.at], at)
				counts[c.how]++
			}
		}
		parts[c.at] = append(parts[c.at], *o)
	}
	clock := int64(0)
	for line := range strings.Lines(text) {
		clock++
		word := strings.Fields(line)
		var who int
		_, _ = fmt.Sscan(word[0], &who)
		switch word[1] {
		case "B":
			c := &lockCall{who: who, lock: word[2] == "lock"}
			_, _ = fmt.Sscan(word[3], &c.at)
			if c.strict = c.at < strictRanges; c.lock {
				c.write, c.how = word[4] == "write", word[5]
			}
			open[who] = &porcupine.Operation{ClientId: who, Input: c, Call: clock}
		case "E":
			end(who, word[2], clock)
		case "X": // the owner has ended, or was killed
			if o := open[who]; o != nil && !o.Input.(*lockCall).lock {
				o.Call = given(who, o.Input.(*lockCall).at)
				end(who, "", math.MaxInt64)
			} else if c := holds[who]; c != nil {
				gone := &lockCall{who: who, at: c.at}
				counts["left"]++
				parts[c.at] = append(parts[c.at], porcupine.Operation{ClientId: who, Input: gone, Call: given(who, c.at), Return: math.MaxInt64})
			}
		}
		words[who] = [2]int64{words[who][1], clock}
	}
	return parts, counts
}

// The judge of histories finds two owners of one lock, and a refusal without a reason. It accepts what a killed owner leaves.
func TestJudgeOfLocks(t *testing.T) {
	for text, want := range map[string]porcupine.CheckResult{
		"0 B lock 0 write ofd|0 E ok|1 B lock 0 read ofd|1 E refused|0 B unlock 0|0 E ok|1 B lock 0 read ofd|1 E ok": porcupine.Ok,
		"0 B lock 0 read ofd|1 B lock 0 read ofd|0 E ok|1 E ok|0 B unlock 0|0 E ok|1 B unlock 0|1 E ok":              porcupine.Ok,
		"0 B lock 0 write ofd|0 E ok|1 B lock 0 read ofd|1 E ok":                                                     porcupine.Illegal,
		"0 B lock 0 read ofd|0 E ok|1 B lock 0 write ofd|1 E ok":                                                     porcupine.Illegal,
		"0 B lock 0 write ofd|0 E ok|0 B unlock 0|0 E ok|1 B lock 0 read ofd|1 E refused":                            porcupine.Illegal,
		"0 B lock 2 write ofd|0 E ok|0 B unlock 2|0 E ok|1 B lock 2 read ofd|1 E refused":                            porcupine.Ok,
		"0 B lock 2 write ofd|0 E ok|0 X|1 B lock 2 write ofd|1 E ok":                                                porcupine.Ok,
		"0 B lock 2 write ofd|0 E ok|1 B lock 2 write ofd|1 E ok|0 B unlock 2|0 X":                                   porcupine.Ok,
		"0 B lock 2 write ofd|1 B lock 2 write ofd|1 E ok|0 E ok|0 X":                                                porcupine.Ok,
		"0 B lock 2 write ofd|0 E ok|1 B lock 2 write ofd|1 E ok|0 B unlock 2|0 E ok":                                porcupine.Illegal,
		"0 B lock 2 write ofd|0 E ok|1 B lock 2 write ofd|1 E ok|0 B unlock 2|0 E ok|0 B lock 2 write ofd|0 X":       porcupine.Illegal,
		"0 B lock 2 write ofd|0 E ok|0 B unlock 2|0 X|1 B lock 2 write ofd|1 E ok|2 B lock 2 read ofd|2 E ok":        porcupine.Illegal,
	} {
		parts, _ := readLocks(strings.ReplaceAll(text, "|", "\n"))
		for at, part := range parts {
			if got := porcupine.CheckOperationsTimeout(locksOnce, part, time.Minute); got != want {
				t.Errorf("%s: %s, not %s", text, got, want)
			}
			if got := judgeLocks(at, part); got != want {
				t.Errorf("%s: %s by judgeLocks, not %s", text, got, want)
			}
		}
	}
}

// For short histories, possible or not, intervals and porcupine give the same judgement.
func TestIntervalsOfLocks(t *testing.T) {
	const owners = 4
	var legal, illegal int
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		var holds, under, over [owners]bool
		for range rapid.IntRange(4, 24).Draw(t, "words") {
			who := rapid.IntRange(0, owners-1).Draw(t, "who")
			switch {
			case over[who]:
			case rapid.IntRange(0, 9).Draw(t, "killed") == 0:
				over[who] = true
				fmt.Fprintln(&text, who, "X")
			case under[who]:
				under[who] = false
				if !holds[who] && rapid.IntRange(0, 3).Draw(t, "refused") == 0 {
					fmt.Fprintln(&text, who, "E refused")
					break
				}
				holds[who] = !holds[who]
				fmt.Fprintln(&text, who, "E ok")
			case holds[who]:
				under[who] = true
				fmt.Fprintln(&text, who, "B unlock 2")
			default:
				under[who] = true
				fmt.Fprintln(&text, who, "B lock 2", rapid.SampledFrom([]string{"read", "write"}).Draw(t, "type"), "ofd")
			}
		}
		parts, _ := readLocks(text.String())
		want := porcupine.CheckOperations(locksOnce, parts[2])
		if got := judgeLocks(2, parts[2]) == porcupine.Ok; got != want {
			t.Fatalf("intervals: %v, porcupine: %v\n%s", got, want, text.String())
		}
		if want {
			legal++
		} else {
			illegal++
		}
	})
	t.Log(legal, "possible,", illegal, "not")
	if legal == 0 || illegal == 0 {
		t.Error("all histories have the same judgement")
	}
}
