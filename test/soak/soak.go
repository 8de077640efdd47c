package soak

import (
	"context"
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

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	"github.com/nfsrdmad/nfsrdmad/test/disk"
	"github.com/nfsrdmad/nfsrdmad/test/hostile"
)

const mib = 1 << 20

// A soak is one run: the daemon and its environment. The test's goroutine changes the
// environment. Other goroutines may call only report, say, hang and the methods of latencies.
type soak struct {
	t      *testing.T
	ctx    context.Context
	random *rand.Rand
	begun  time.Time

	process   *servertest.Process
	tcp, rdma netip.AddrPort
	config    string
	top       string // the configuration without its exports
	seen      int    // number of bytes of the daemon's output that have been checked

	honest []*honest
	lost   atomic.Int64 // number of connections that honest clients lost
	hung   sync.Once

	prey      hostile.Place // the export that the crowd attacks
	kinds     []int         // indexes of the kinds of peers that have not run yet
	intruders []*intrusion

	disk                  *disk.Disk
	rpcbind               rpcbind
	directory             *directoryService
	mood                  int       // index in moods of the directory service's behaviour
	turned                time.Time // when mood was set
	steady, open, changed string    // directories
	groups                string
	hidden                bool // true if the export that the crowd attacks is not in the configuration
	variant               int  // selects the options of the changing export
	reloads               int
}

// Names of exports.
const (
	steadyName  = "/steady"
	openName    = "/open"
	changedName = "/changed"
	groupsName  = "/groups"
	diskName    = "/disk"
)

// Run runs a daemon for the duration long. The random number seed determines which of the events in
// the package's comment happen, and in which order.
func Run(t *testing.T, program string, long time.Duration, seed uint64) {
	ctx, end := context.WithCancel(context.Background())
	defer end()
	s := &soak{
		t: t, ctx: ctx, random: rand.New(rand.NewPCG(seed, 19)), begun: time.Now(),
		tcp: netip.MustParseAddrPort("127.0.0.2:2049"), rdma: netip.MustParseAddrPort("127.0.0.2:20049"),
		rpcbind: rpcbind{t: t}, directory: newDirectoryService(t), disk: disk.NewDisk(t),
	}
	for _, dir := range []*string{&s.steady, &s.open, &s.changed, &s.groups} {
		*dir = t.TempDir()
	}
	s.furnish()
	s.start(program)
	s.find()
	var working sync.WaitGroup
	for _, h := range s.employ() {
		working.Add(1)
		go h.work(ctx, &working)
	}
	s.days(long)
	end()
	working.Wait()
	for _, h := range s.honest {
		h.judge()
		s.say("%v: %v", h, h.took)
	}
	s.say("%d connections of honest clients were lost, %d reloads", s.lost.Load(), s.reloads)
	s.process.Signal(syscall.SIGTERM)
	if status := s.process.Wait(); status != 0 {
		s.report("the daemon's status is %d", status)
	}
	s.read()
	if t.Failed() {
		said := s.process.Output()
		s.say("the daemon said at last:\n%s", said[max(len(said)-lastWords, 0):])
	}
}

// lastWords is the number of bytes at the end of the daemon's output that a failed run prints.
const lastWords = 16 << 10

// furnish creates the files in the open export that the crowd attacks.
func (s *soak) furnish() {
	names := filepath.Join(s.open, "many")
	err := os.Mkdir(names, 0o777)
	for i := range 500 {
		if err == nil {
			err = os.WriteFile(filepath.Join(names, fmt.Sprintf("a name of some length %d", i)), nil, 0o666)
		}
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(s.open, "victim"), make([]byte, 4*mib), 0o666)
	}
	for _, path := range []string{s.open, names, filepath.Join(s.open, "victim")} {
		if err == nil {
			err = os.Chmod(path, 0o777)
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// start starts the daemon and waits until it serves.
func (s *soak) start(program string) {
	dir := s.t.TempDir()
	s.config = filepath.Join(dir, "nfsrdmad.toml")
	s.top = fmt.Sprintf(`
tcp = [%q]
rdma = [%q]
state_dir = %q
rpcbind = true
drain_timeout = "30s"
[memory]
ceiling = "64M"
state = "16M"
replies = "16M"
[nfs]
lease_time = "30s"
`, s.tcp, s.rdma, filepath.Join(dir, "state"))
	s.configure()
	c := exec.Command(program, "serve", "--config", s.config)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.Env = append(os.Environ(), profileVariable+"="+profileSocket, s.directory.path(), "GORACE=halt_on_error=0 history_size=2")
	s.process = servertest.StartProcess(s.t, c)
	s.process.AwaitLine("serving")
}

// configure writes the configuration file with the present exports.
func (s *soak) configure() {
	const common = "rw,insecure,no_root_squash"
	variants := []string{",async", ",sync", ",crossmnt", ",utf8", ",clients=127.0.0.0/8"}
	type export struct{ path, name, options string }
	all := []export{
		{s.steady, steadyName, common},
		{s.groups, groupsName, common + ",manage_gids"},
		{s.changed, changedName, common + variants[s.variant%len(variants)]},
	}
	if !s.hidden {
		all = append(all, export{s.open, openName, common})
	}
	if s.disk.Dir != "" {
		all = append(all, export{s.disk.Dir, diskName, common})
	}
	text := s.top
	for _, e := range all {
		text += fmt.Sprintf("[[export]]\npath = %q\nname = %q\noptions = %q\n", e.path, e.name, e.options)
	}
	if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// reload writes the configuration and sends one to three SIGHUPs to the daemon.
func (s *soak) reload() {
	s.configure()
	for range 1 + s.random.IntN(3) {
		s.process.Signal(syscall.SIGHUP)
	}
	s.reloads++
}

// find looks up the handles of the files that the crowd attacks.
func (s *soak) find() {
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	c, err := servertest.DialTCP(ctx, s.tcp)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	s.prey.Name = openName
	if s.prey.Root, err = c.Mount(ctx, openName); err == nil {
		s.prey.Victim, err = c.Lookup(ctx, s.prey.Root, "victim")
	}
	if err == nil {
		s.prey.Many, err = c.Lookup(ctx, s.prey.Root, "many")
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// employ creates the honest clients.
func (s *soak) employ() []*honest {
	hire := func(export, place string, fails bool, version int, transport client.Transport) {
		s.honest = append(s.honest, &honest{
			soak: s, transport: transport, version: version, export: export, place: place, fails: fails,
			random: rand.New(rand.NewPCG(s.random.Uint64(), 20)), took: new(latencies),
		})
	}
	for _, version := range []int{3, 40, 41, 42} {
		for _, transport := range []client.Transport{client.TCP, client.RDMA} {
			hire(steadyName, s.steady, false, version, transport)
		}
	}
	hire(changedName, s.changed, false, 3, client.RDMA)
	hire(changedName, s.changed, false, 40, client.TCP)
	hire(changedName, s.changed, false, 42, client.RDMA)
	hire(groupsName, s.groups, false, 3, client.TCP)
	hire(groupsName, s.groups, false, 41, client.RDMA)
	hire(diskName, "", true, 3, client.TCP)
	hire(diskName, "", true, 40, client.TCP)
	hire(diskName, "", true, 42, client.RDMA)
	return s.honest
}

// days makes an event happen every few seconds, until the run has lasted for the duration long. It
// calls rest after 10 minutes or a third of the run, whichever is shorter, then after each hour,
// or each third of the run if that is shorter, and at the end.
func (s *soak) days(long time.Duration) {
	first := min(10*time.Minute, long/3)
	next := s.begun.Add(first)
	var at0 *census
	for end := s.begun.Add(long); time.Now().Before(end); {
		if time.Now().After(next) {
			s.rest(&at0)
			next = time.Now().Add(min(time.Hour, long/3))
		}
		s.happen()
		s.read()
		if s.gone() {
			s.report("the daemon has ended")
			return
		}
		wait(s.ctx, time.Duration(1+s.random.IntN(4000))*time.Millisecond)
	}
	s.rest(&at0)
}

func (s *soak) gone() bool {
	select {
	case <-s.process.Done():
		return true
	default:
		return false
	}
}

// kindsAtATime is the number of kinds of peers that run at the same time.
const kindsAtATime = 3

// happen makes one random event happen.
func (s *soak) happen() {
	if s.mood != 0 && time.Since(s.turned) > outage {
		s.setMood(0)
	}
	switch s.random.IntN(8) {
	case 0, 1, 2:
		for len(s.intruders) >= kindsAtATime {
			s.expel()
		}
		s.intrude()
	case 3:
		s.variant = s.random.IntN(100)
		s.hidden = s.random.IntN(4) == 0
		s.reload()
		s.say("reload %d, variant %d, the crowd's export is hidden: %v", s.reloads, s.variant, s.hidden)
	case 4:
		s.say("rpcbind %s", s.rpcbind.change(s.random.IntN(2)))
	case 5:
		mood := s.random.IntN(len(moods))
		switch {
		case s.mood != 0:
			s.setMood(0)
		case time.Since(s.turned) > outage:
			s.setMood(mood)
		}
	case 6:
		s.spoil()
	case 7:
		s.expel()
	}
}

// outage is about the longest time for which the directory service does not answer, and also the
// shortest time for which it answers afterwards. While it does not answer, the daemon tells clients
// to try again later. outage is shorter than patience, so that no call takes longer than patience.
const outage = patience / 3

func (s *soak) setMood(mood int) {
	s.mood, s.turned = mood, time.Now()
	if err := s.directory.change(mood); err != nil {
		s.t.Fatal(err)
	}
	s.say("the directory service %s", moods[mood].name)
}

// spoil makes the disk stall, fill up, or fail, for some seconds. Then it replaces a disk that has
// failed.
func (s *soak) spoil() {
	stall := time.Duration(1+s.random.IntN(15)) * time.Second
	switch s.random.IntN(3) {
	case 0:
		s.say("the disk stalls for %v", stall)
		s.disk.Stall()
		wait(s.ctx, stall)
		s.disk.Resume()
	case 1:
		s.say("the disk is full for %v", stall)
		s.disk.Fill()
		wait(s.ctx, stall)
		s.disk.Empty()
	case 2:
		s.say("the disk fails for %v, and is exchanged", stall)
		s.disk.Fail()
		wait(s.ctx, stall)
		s.disk.Heal()
		s.exchange()
	}
}

// exchange replaces a disk that has failed. It first removes the export, so that the daemon
// releases the old disk.
func (s *soak) exchange() {
	dir := s.disk.Dir
	s.disk.Dir = ""
	s.reload()
	s.disk.Dir = dir
	s.disk.Exchange(s.t)
	s.reload()
}

// rest ends the attacks, makes the directory service answer, and reloads the configuration with all
// exports. Then it takes a census, and reports resources of the daemon that have grown since the
// first rest.
func (s *soak) rest(first **census) {
	for len(s.intruders) > 0 {
		s.expel()
	}
	s.setMood(0)
	s.hidden = false
	s.reload()
	now := s.settled(*first)
	s.say("at rest: %v", now)
	if *first == nil {
		*first = &now
	} else if grown := (*first).grown(now); grown != "" {
		stacks, _ := s.profile("goroutine?debug=1")
		heap, _ := s.profile("heap?debug=1")
		s.report("at rest there are %s\n%s\n%s", grown, stacks, heap)
	}
}

// settled takes a census every 10 seconds, at most 30 times. It returns the last one when, three
// times in a row, neither the goroutines nor the descriptors have fallen by 5 or more, or when the
// census does not exceed first (see grown). This can take minutes, because the daemon ends idle
// connections by itself.
func (s *soak) settled(first *census) (now census) {
	const every, most = 10 * time.Second, 30
	for n, same := 0, 0; n < most && same < 3; n++ {
		last := now
		now = s.take()
		if first != nil && first.grown(now) == "" {
			break
		}
		if last.goroutines-now.goroutines < 5 && last.descriptors-now.descriptors < 5 {
			same++
		} else {
			same = 0
		}
		wait(s.ctx, every)
	}
	return now
}

// read checks the daemon's output since the last call for races, panics and faults.
func (s *soak) read() {
	said := s.process.Output()
	fresh := said[s.seen:]
	s.seen = len(said)
	for _, mark := range []string{"DATA RACE", "panic:", "fatal error:", "fault of the server"} {
		if at := strings.Index(fresh, mark); at >= 0 {
			s.report("the daemon says:\n%s", fresh[max(at-200, 0):min(at+6000, len(fresh))])
		}
	}
}

// report records an error.
func (s *soak) report(format string, args ...any) {
	s.t.Errorf("after %v: %s", time.Since(s.begun).Round(time.Second), fmt.Sprintf(format, args...))
}

// say logs an event.
func (s *soak) say(format string, args ...any) {
	s.t.Logf("%v: %s", time.Since(s.begun).Round(time.Second), fmt.Sprintf(format, args...))
}

// Machine prepares the run's own namespaces: it starts the loopback device and mounts a /run for
// rpcbind.
func Machine() error {
	if err := unix.Mount("soak", "/run", "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("a /run of the run's own: %w", err)
	}
	if err := os.Mkdir("/run/rpcbind", 0o755); err != nil {
		return err
	}
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return fmt.Errorf("the loopback device: %w: %s", err, out)
	}
	return nil
}
