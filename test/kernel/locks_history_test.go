//go:build kernel

package kernel

import (
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

	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// TestLocksHistory has 32 owners on a client of version 3, on one of version 4.2, and on the server's machine lock the same
// ranges by fcntl, open file descriptions, lockf and flock. Some owners are killed. One history of all must be
// possible. NFSRDMAD_LOCKS_SECONDS is the duration.
func TestLocksHistory(t *testing.T) {
	needsDaemon(t)
	t.Parallel()
	seconds := fromEnvironment(t, "NFSRDMAD_LOCKS_SECONDS", 15)
	s := serveLocks(t)
	h := s.beginHistory()
	local := s.network.Command(build(t, "test/kernel/worker"), "owners", h.address, s.folder, "10", fmt.Sprint(seconds), "local")
	clients := h.clients(seconds)
	h.grows(200) // each owner on a client begins with a flock, for which it would wait long beside the others
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
	h := s.beginHistory()
	clients := h.clients(60)
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

// beginHistory makes the files, and starts the witness.
func (s *server) beginHistory() *history {
	s.t.Helper()
	for _, name := range []string{"locked0", "locked1"} {
		if err := os.WriteFile(filepath.Join(s.folder, name), make([]byte, 100), 0o666); err != nil {
			s.t.Fatal(err)
		}
	}
	h := &history{s, lab.Host + ":7777", filepath.Join(s.t.TempDir(), "history")}
	witness := s.network.Command(build(s.t, "test/kernel/worker"), "witness", h.address, h.file)
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
		limit := time.Duration(seconds)*time.Second + 4*time.Minute
		all = append(all, h.s.boot(lab.Options{Limit: limit}, "locks_history", how, h.address, "11", fmt.Sprint(seconds)))
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
	if !await.Within(2*time.Minute, func() bool { return has() >= until }) { // a grace period may come first
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
		if result := porcupine.CheckOperationsTimeout(locksOnce, part, time.Minute); result != porcupine.Ok {
			kept := filepath.Join(os.TempDir(), fmt.Sprintf("nfsrdmad-locks-%d", os.Getpid()))
			_ = os.WriteFile(kept, text, 0o644)
			t.Errorf("range %d: the history is %s: see %s", at, result, kept)
		}
	}
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
		for _, part := range parts {
			if got := porcupine.CheckOperationsTimeout(locksOnce, part, time.Minute); got != want {
				t.Errorf("%s: %s, not %s", text, got, want)
			}
		}
	}
}
