package restarts

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// lease is the daemon's lease time and grace time. It is the shortest lease that the daemon
// accepts. The daemon may make a grace period longer, but not shorter.
const lease = 5 * time.Second

const (
	callers = 6
	files   = 12
	// crowdPause is the time between two clients of the crowd.
	crowdPause = 5 * time.Millisecond
	// A life that is to end while the daemon starts ends at one of the first startSteps steps. A
	// life that is to end later ends at one of the first `steps` steps.
	steps, startSteps = 200, 6
)

// A world is everything that lives longer than the daemon: its disk, and the clients with the
// locks that they believe they hold.
type world struct {
	t       testing.TB
	random  *rand.Rand
	program string
	config  string
	target  client.Target
	state   *stateDirectory
	dir     string

	files   []*file
	callers []*caller
	holds   map[*file]*hold
	// unaware has, for each caller, the files whose lock another caller got. The caller still
	// believes that it holds these locks.
	unaware map[*caller][]*file
	// given counts the locks that callers reclaimed, lost those that they could not reclaim, and
	// refused the locks that the daemon refused to others. killedEarly counts lives that ended
	// before the daemon served; killedInGrace counts the other lives that ended within the time
	// `lease`, so in the grace period.
	given, lost, refused       int
	killedEarly, killedInGrace int
	crowded                    atomic.Int64 // number of clients of the crowd
}

// A hold is a lock that the daemon granted to a caller.
type hold struct {
	by *caller
	*lock
	// life is the last life in which the lock was granted or reclaimed. lapsed is true if, since
	// then, a grace period may have ended, or the reply to a reclaim may have been lost.
	life   int
	lapsed bool
}

// A life is the time from one start of the daemon until it is killed.
type life struct {
	*world
	number  int
	begun   time.Time
	process *servertest.Process
	arrived map[*caller]bool
}

// errEnded says that the daemon has ended, or that this process was too slow to judge its answer.
var errEnded = errors.New("the life has ended")

func newWorld(t testing.TB, program string, seed uint64) *world {
	w := &world{
		t: t, random: rand.New(rand.NewPCG(seed, 20)), program: program, state: newStateDirectory(t),
		dir: t.TempDir(), holds: make(map[*file]*hold), unaware: make(map[*caller][]*file),
	}
	at := servertest.FreePort(t, netip.MustParseAddr("127.0.0.1"))
	w.target = client.Target{Transport: client.TCP, Host: at.Addr().String(), Port: int(at.Port()), Cred: client.Self()}
	w.config = filepath.Join(t.TempDir(), "nfsrdmad.toml")
	text := fmt.Sprintf(`
tcp = [%q]
rdma = ["none"]
rpcbind = false
state_dir = %q
[nfs]
lease_time = %q
grace_time = %q
[[export]]
path = %q
name = "/"
options = "rw,insecure,no_root_squash"
`, at, w.state.Mount, lease, lease, w.dir)
	if err := os.WriteFile(w.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range files {
		f := &file{name: fmt.Sprint("file", i)}
		if err := os.WriteFile(filepath.Join(w.dir, f.name), []byte("locked"), 0o644); err != nil {
			t.Fatal(err)
		}
		w.files = append(w.files, f)
	}
	for i := range callers {
		c := &caller{name: fmt.Sprint("caller ", i), minor: uint32(i % 2)}
		c.verifier[0] = byte(i + 1)
		w.callers = append(w.callers, c)
	}
	return w
}

// live runs the daemon until it is killed. Meanwhile the callers and the crowd make their calls.
func (w *world) live(number int) {
	w.t.Helper()
	l := &life{world: w, number: number, begun: time.Now(), arrived: make(map[*caller]bool)}
	ended := make(chan *os.Process, 1)
	kill := func() {
		p := <-ended
		_ = p.Kill()
		ended <- p
	}
	last := 0 // 0 means that no step kills the daemon
	switch w.random.IntN(4) {
	case 0:
		last = 1 + w.random.IntN(startSteps)
	case 1, 2:
		last = 1 + w.random.IntN(steps)
	}
	w.state.strike(last, w.random.IntN(2) == 0, kill)
	c := exec.Command(w.program, "serve", "--config", w.config)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	l.process = servertest.StartProcess(w.t, c)
	ended <- c.Process
	serves := l.serves()
	if serves {
		ctx, cancel := context.WithCancel(context.Background())
		var crowd sync.WaitGroup
		for i := range 3 {
			crowd.Go(func() { l.crowd(ctx, i) })
		}
		if err := l.day(); err != nil && !errors.Is(err, errEnded) {
			w.t.Errorf("life %d: %v\n%s", number, err, l.lastLines())
		}
		cancel()
		l.process.Kill()
		crowd.Wait()
	}
	l.process.Kill()
	w.state.strike(0, false, nil)
	for _, c := range w.callers {
		c.leave()
	}
	for _, h := range w.holds {
		if h.life < number && (l.late() || l.arrived[h.by]) {
			h.lapsed = true
		}
	}
	switch {
	case !serves:
		w.killedEarly++
	case time.Since(l.begun) < lease:
		w.killedInGrace++
	}
}

// serves waits until the daemon serves or has ended, and reports whether it serves.
func (l *life) serves() bool {
	l.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if strings.Contains(l.process.Output(), "serving") {
			return true
		}
		select {
		case <-l.process.Done():
			if last := l.process.Output(); strings.Contains(last, "panic") || strings.Contains(last, "damaged") {
				l.t.Errorf("life %d does not begin:\n%s", l.number, last)
			}
			return false
		default:
		}
	}
	l.t.Fatalf("life %d does not begin:\n%s", l.number, l.process.Output())
	return false
}

func (l *life) lastLines() string {
	all := strings.Split(l.process.Output(), "\n")
	return strings.Join(all[max(len(all)-12, 0):], "\n")
}

// crowd connects new clients all the time. Half of the NFSv4.1 clients send RECLAIM_COMPLETE.
func (l *life) crowd(ctx context.Context, which int) {
	for n := 0; ctx.Err() == nil; n++ {
		c := &caller{name: fmt.Sprintf("crowd %d %d %d", l.number, which, n), minor: uint32(n % 2)}
		err := c.arrive(l.target)
		if err == nil && n%4 == 1 {
			err = c.done()
		}
		c.leave()
		if err != nil && !answered(err) {
			return // the daemon has ended
		}
		l.crowded.Add(1)
		time.Sleep(crowdPause)
	}
}

// day makes the callers' calls of one life. First each caller connects and reclaims its locks, in
// random order of the callers. Then random callers ask for locks or give them back.
func (l *life) day() error {
	for _, i := range l.random.Perm(len(l.callers)) {
		c := l.callers[i]
		if err := c.arrive(l.target); err != nil {
			return l.ended("arrival of "+c.name, err)
		}
		l.arrived[c] = true
		if err := l.find(c); err != nil {
			return err
		}
		// The daemon must refuse a lock that another caller holds.
		if err := l.covet(c); err != nil {
			return err
		}
		if err := l.claim(c); err != nil {
			return err
		}
		if err := c.done(); err != nil {
			return l.ended("RECLAIM_COMPLETE of "+c.name, err)
		}
	}
	if l.random.IntN(2) == 0 { // kill the daemon in the grace period or soon after it
		for range l.random.IntN(20) {
			if err := l.covet(l.callers[l.random.IntN(callers)]); err != nil {
				return err
			}
		}
		return nil
	}
	if err := l.awaitGrace(); err != nil {
		return err
	}
	for range 40 {
		if err := l.exchange(); err != nil {
			return err
		}
	}
	return nil
}

// ended judges err, the result of a call. If the call has no answer, ended waits until the daemon
// has ended, and then returns errEnded. If the call has an answer, or the daemon still runs after
// patience, ended returns an error that contains err.
func (l *life) ended(what string, err error) error {
	if !answered(err) {
		select {
		case <-l.process.Done():
			return errEnded
		case <-time.After(patience):
			return fmt.Errorf("%s, of a daemon that lives: %w", what, err)
		}
	}
	return fmt.Errorf("%s: %w", what, err)
}

// find looks up the files whose handles are not known yet.
func (l *life) find(c *caller) error {
	for _, f := range l.files {
		if f.handle != nil {
			continue
		}
		handle, err := c.find(nil, f.name)
		if err != nil {
			return l.ended("LOOKUP", err)
		}
		f.handle = handle
	}
	return nil
}

// claim reclaims the locks that a caller holds. First it tries to reclaim the locks that the
// daemon has meanwhile granted to other callers. The daemon must refuse that.
func (l *life) claim(c *caller) error {
	for len(l.unaware[c]) > 0 {
		f := l.unaware[c][0]
		_, err := c.take(f, true)
		switch client.StatusOf(err) {
		case nfs4wire.NFS4ErrNoGrace, nfs4wire.NFS4ErrReclaimConflict, nfs4wire.NFS4ErrReclaimBad:
			l.unaware[c] = l.unaware[c][1:]
		default:
			if err == nil {
				return fmt.Errorf("%s claims %s, which another one got since", c.name, f.name)
			}
			return l.ended(fmt.Sprintf("%s claims %s, which another one got since", c.name, f.name), err)
		}
	}
	for _, f := range l.files {
		h := l.holds[f]
		if h == nil || h.by != c {
			continue
		}
		again, err := c.take(f, true)
		switch status := client.StatusOf(err); {
		case err == nil:
			h.lock, h.life = again, l.number
			l.given++
		case !answered(err):
			return l.ended("a claim", err)
		case status == nfs4wire.NFS4ErrNoGrace && (h.lapsed || l.late()):
			delete(l.holds, f)
			l.lost++
		default:
			return fmt.Errorf("%s held %s, claims it %v after the start, and is told: %w", c.name, f.name, time.Since(l.begun), err)
		}
	}
	return nil
}

// late reports whether the grace period may have ended: the life began at least one lease time
// ago.
func (l *life) late() bool { return time.Since(l.begun) >= lease }

// covet asks for a random lock if another caller holds it or may reclaim it. The daemon must refuse
// the lock, unless the other caller's lease, or the grace period in which it may reclaim, may have
// ended.
func (l *life) covet(c *caller) error {
	f := l.files[l.random.IntN(files)]
	h := l.holds[f]
	if h == nil || h.by == c || !l.arrived[c] {
		return nil
	}
	if h.life == l.number {
		if err := h.by.renew(); err != nil {
			return l.ended("renewal", err)
		}
	}
	got, err := c.take(f, false)
	switch status := client.StatusOf(err); {
	case err != nil && !answered(err):
		return l.ended("LOCK", err)
	case err == nil && h.life == l.number && time.Since(h.by.heard) < lease:
		return fmt.Errorf("%s gets %s, which %s holds, which was heard of %v ago", c.name, f.name, h.by.name, time.Since(h.by.heard))
	case err == nil && h.life < l.number && !l.late() && !h.lapsed:
		return fmt.Errorf("%s gets %s, which %s may claim, %v after the start", c.name, f.name, h.by.name, time.Since(l.begun))
	case err == nil && h.life == l.number:
		// The other caller was silent for the lease time, and may have lost all its locks.
		for f, held := range l.holds {
			if held.by == h.by {
				delete(l.holds, f)
			}
		}
		return errEnded
	case err == nil:
		l.holds[f] = &hold{by: c, lock: got, life: l.number}
		l.unaware[h.by] = append(l.unaware[h.by], f)
		l.lost++
	case status == nfs4wire.NFS4ErrGrace, status == nfs4wire.NFS4ErrDenied:
		l.refused++
	default:
		return fmt.Errorf("%s asks for %s, which %s holds: %w", c.name, f.name, h.by.name, err)
	}
	return nil
}

// awaitGrace waits until the grace period has ended: until the daemon grants a caller a lock that
// no caller holds. If all locks are held, a caller first gives one back.
func (l *life) awaitGrace() error {
	for deadline := time.Now().Add(patience); ; time.Sleep(delay) {
		for _, c := range l.callers {
			if err := c.renew(); err != nil {
				return l.ended("renewal", err)
			}
		}
		c, f := l.callers[l.random.IntN(callers)], l.free()
		if f == nil {
			if err := l.giveBack(l.files[l.random.IntN(files)]); err != nil {
				return err
			}
			continue
		}
		got, err := c.take(f, false)
		switch status := client.StatusOf(err); {
		case err == nil:
			l.holds[f] = &hold{by: c, lock: got, life: l.number}
			return nil
		case !answered(err):
			return l.ended("LOCK", err)
		case status != nfs4wire.NFS4ErrGrace:
			return fmt.Errorf("%s asks for %s, which is free: %w", c.name, f.name, err)
		case time.Now().After(deadline):
			return fmt.Errorf("the grace period does not end within %v", patience)
		}
	}
}

// free returns a file whose lock no caller holds, or nil.
func (l *life) free() *file {
	for _, i := range l.random.Perm(files) {
		if l.holds[l.files[i]] == nil {
			return l.files[i]
		}
	}
	return nil
}

// exchange chooses a random caller and a random file. If no caller holds the file's lock, the
// chosen caller takes it. Otherwise the caller that holds the lock gives it back, or the chosen
// caller asks for it.
func (l *life) exchange() error {
	c, f := l.callers[l.random.IntN(callers)], l.files[l.random.IntN(files)]
	h := l.holds[f]
	switch {
	case h == nil:
		got, err := c.take(f, false)
		if err == nil {
			l.holds[f] = &hold{by: c, lock: got, life: l.number}
			return nil
		}
		return l.ended(fmt.Sprintf("%s asks for %s, which is free", c.name, f.name), err)
	case h.life == l.number && l.random.IntN(2) == 0:
		return l.giveBack(f)
	}
	return l.covet(c)
}

// giveBack makes the caller that holds a lock unlock it. Even if no answer comes, the caller no
// longer reclaims the lock.
func (l *life) giveBack(f *file) error {
	h := l.holds[f]
	delete(l.holds, f)
	if err := h.by.giveBack(f, h.lock); err != nil {
		return l.ended(fmt.Sprintf("%s gives %s back", h.by.name, f.name), err)
	}
	return nil
}
