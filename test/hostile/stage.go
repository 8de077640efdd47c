package hostile

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// The names of the exports, and the names, numbers and sizes of the files in each of them.
const (
	honestFiles = 32       // files that honest clients read
	honestSize  = 64 * kib // bytes of each of them
	largeSize   = 3 * mib  // bytes of the file "large"
	victimSize  = 4 * mib  // bytes of the file "victim", which hostile peers use
	manyNames   = 2000     // names in the directory "many" of the open export
	fewNames    = 50       // names in the directory "many" of the other exports
	victimName  = "victim"
	largeName   = "large"
	manyName    = "many"
	openName    = "/open"
	closedName  = "/closed"
	securedName = "/secured"
)

// guard is the number of bytes by which a daemon's memory may exceed its limit before the test
// kills the daemon.
const guard = 1 << 30

// A Place is an export, with the handles of its root, of its file "victim" and of its directory
// "many".
type Place struct {
	Name               string
	Root, Victim, Many []byte
	files              []servertest.Handle // handles of the files that honest clients read
}

// A StallingPlace is an export on a file system that can stall.
type StallingPlace struct {
	Place
	*StallingFS
}

// A Stage is a daemon with honest clients, ready for attacks. Its files and connections last
// until the test ends.
type Stage struct {
	*Daemon
	t   *testing.T
	ctx context.Context
	// Open is an export for every client. Closed is an export for the honest client's address only.
	// Over TCP, Secured is an export for privileged ports only, which are those below 1024; over RDMA
	// any port will do.
	Open, Closed, Secured Place
	// Stalling are exports on file systems that can stall.
	Stalling []*StallingPlace
	// Directory is the local directory that the export Open shows.
	Directory string
	// Held is the memory that the daemon may use for the state of NFSv4 clients, in bytes, in
	// addition to payload memory.
	Held int

	honest   map[string]*honestClient
	sessions map[string]*honestSession
	control  control
	usual    map[string]time.Duration // the median time of a READ before the attack
	idle     int                      // resident memory in bytes before the attack
	attacks  []*Attack
	end      context.CancelFunc
}

// NewStage creates the exports and starts a daemon of the given program with them. It connects one
// honest client to the daemon over each transport, starts the control daemon, and measures READs.
func NewStage(t *testing.T, program string, cfg Config) *Stage {
	t.Helper()
	s := &Stage{t: t, honest: make(map[string]*honestClient), usual: make(map[string]time.Duration)}
	var exports []exported
	for _, e := range []exported{
		{"", openName, "rw,insecure,no_root_squash"},
		{"", closedName, "rw,insecure,no_root_squash,clients=" + HonestAddress.String() + ";" + HonestAddress6.String()},
		{"", securedName, "rw,secure,no_root_squash"},
	} {
		names := fewNames
		if e.name == openName {
			e.path, names = cfg.Disk, cmp.Or(cfg.Names, manyNames)
		}
		if e.path == "" {
			e.path = t.TempDir()
		}
		furnish(t, e.path, names)
		exports = append(exports, e)
	}
	s.Directory = exports[0].path
	for i := range cfg.Files {
		makeFile(t, filepath.Join(s.Directory, emptyName(i)), nil)
	}
	for i := range cfg.Stalling {
		f := newStallingFS(t, cfg.Remembered)
		furnish(t, f.Files, fewNames)
		s.Stalling = append(s.Stalling, &StallingPlace{StallingFS: f})
		exports = append(exports, exported{f.Mount, fmt.Sprintf("/stalling%d", i), "rw,insecure,no_root_squash"})
	}
	s.Daemon = startDaemon(t, program, cfg, exports)
	places := []*Place{&s.Open, &s.Closed, &s.Secured}
	for _, f := range s.Stalling {
		// t.Cleanup runs the last function first, so this f.End runs before the daemon is killed.
		// (newStallingFS has registered f.End too, but before the daemon started.) No signal can
		// kill the daemon while it waits for a request that the server of a file system has taken
		// (see Stall). f.End makes such a request fail.
		t.Cleanup(f.End)
		places = append(places, &f.Place)
	}
	s.ctx, s.end = context.WithCancel(context.Background())
	t.Cleanup(s.leave)
	for i, at := range places {
		s.find(exports[i].name, at)
	}
	s.prepare(program)
	return s
}

// makeFile creates a file that every user may write, whatever the umask.
func makeFile(t testing.TB, path string, content []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := f.Chmod(0o666); err != nil {
		t.Fatal(err)
	}
}

// furnish creates the files of an export in dir. The parameter names is the number of names in the
// directory "many".
func furnish(t testing.TB, dir string, names int) {
	t.Helper()
	content := bytes.Repeat([]byte("hostile "), victimSize/8)
	for i := range honestFiles {
		makeFile(t, filepath.Join(dir, honestName(i)), content[:honestSize])
	}
	makeFile(t, filepath.Join(dir, largeName), content[:largeSize])
	makeFile(t, filepath.Join(dir, victimName), content)
	many := filepath.Join(dir, manyName)
	if err := os.Mkdir(many, 0o777); err != nil {
		t.Fatal(err)
	}
	for i := range names {
		makeFile(t, filepath.Join(many, fmt.Sprintf("a name of some length %d", i)), nil)
	}
	for _, d := range []string{dir, many} {
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
}

func emptyName(i int) string { return fmt.Sprintf("empty%d", i) }

func honestName(i int) string { return fmt.Sprintf("file%d", i) }

func honestNames() (all []string) {
	for i := range honestFiles {
		all = append(all, honestName(i))
	}
	return all
}

// find looks up the handles of an export with a client at the honest client's address.
func (s *Stage) find(name string, at *Place) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, Patience)
	defer cancel()
	// The export Secured accepts RDMA from any port, because RDMA counts as a secure transport.
	c, err := s.arrive(ctx, "rdma", name, append(honestNames(), victimName, manyName)...)
	if err != nil {
		s.t.Fatalf("before the attack: %v", err)
	}
	defer c.Close()
	root, err := c.Mount(ctx, name)
	if err != nil {
		s.t.Fatal(err)
	}
	*at = Place{
		Name: name, Root: root, files: c.files[:honestFiles],
		Victim: c.files[honestFiles], Many: c.files[honestFiles+1],
	}
}

// prepare connects the honest clients, measures their READs and the daemon's memory before the
// attack, and starts the control daemon. From then on, killBeyond watches the daemon's memory.
func (s *Stage) prepare(program string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
	defer cancel()
	for _, transport := range Transports {
		c, err := s.arrive(ctx, transport, openName, append(honestNames(), largeName)...)
		if err != nil {
			s.t.Fatalf("before the attack: %v", err)
		}
		s.t.Cleanup(c.Close)
		s.honest[transport] = c
		before := summarize(samples(ctx, readsBefore, 5*time.Millisecond, c.readOne))
		if before.failed > 0 {
			s.t.Fatalf("READs over %s before the attack: %v", transport, before)
		}
		s.usual[transport] = before.median
	}
	s.startControl(ctx, program)
	s.idle = s.Resident()
	go s.killBeyond(s.idle + s.Ceiling + s.Held + slack + guard)
}

// Target returns a Target for this daemon. The function source returns the addresses of the peers.
func (s *Stage) Target(source func(i int) netip.Addr) Target {
	return Target{TCP: s.TCP, RDMA: s.RDMA, Source: source}
}

// Attack starts hostile peers. It returns when each of them stands (see Attack.Standing) or was
// refused, or when Attack.Await gives up. It ends the test if a limit of this machine stopped a
// peer.
func (s *Stage) Attack(b Behaviour, source func(i int) netip.Addr) *Attack {
	s.t.Helper()
	a, _ := s.AttackUntil(b, source)
	return a
}

// AttackUntil is like Attack, but also returns a function that ends this attack.
func (s *Stage) AttackUntil(b Behaviour, source func(i int) netip.Addr) (a *Attack, end func()) {
	s.t.Helper()
	begin := time.Now()
	ctx, cancel := context.WithCancel(s.ctx)
	s.t.Cleanup(cancel)
	a = b.Start(ctx, s.Target(source))
	a.source = source
	s.attacks = append(s.attacks, a)
	if err := a.Await(); err != nil {
		s.t.Fatalf("this machine cannot carry the attack: %v", err)
	}
	s.t.Logf("%v", b)
	s.t.Logf("after %v: %v", time.Since(begin).Round(time.Millisecond), a)
	return a, func() {
		cancel()
		a.Wait()
		a.over = true
	}
}

// leave ends the attacks and waits for their peers.
func (s *Stage) leave() {
	s.end()
	for _, a := range s.attacks {
		a.Wait()
	}
}

// Forged returns a copy of a handle with one bit changed. The daemon did not issue the result.
func Forged(handle []byte) []byte {
	h := slices.Clone(handle)
	h[len(h)-1] ^= 1
	return h
}

// lastLines returns the last 20 lines of the daemon's output, or, if the daemon has panicked, 20
// lines from the panic on.
func (s *Stage) lastLines() string {
	const most = 20
	all := strings.Split(s.Output(), "\n")
	for i, line := range all {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return strings.Join(all[i:min(i+most, len(all))], "\n")
		}
	}
	return strings.Join(all[max(len(all)-most, 0):], "\n")
}

// listed reads the first entries of a directory. It returns the cookie of the last entry and the
// verifier, so that a READDIRPLUS can continue there.
func (s *Stage) listed(dir []byte) (cookie uint64, verifier wire.CookieVerf3) {
	s.t.Helper()
	var res wire.ReaddirPlus3Res
	done := make(chan error, 1)
	args := &wire.ReaddirPlus3Args{Dir: wire.FileHandle3{Data: dir}, DirCount: 1024, MaxCount: 2048}
	s.honest["tcp"].Start(wire.ProcReaddirPlus, args, nil, func(x *rpc.Exchange) {
		if x.Err == nil {
			res.Decode(&x.Results)
			var e wire.EntryPlus3
			for res.ResOK.Reply.Entries.Next(&e) {
				cookie = e.Cookie
			}
			x.Err = x.Results.Err()
		}
		done <- x.Err
	})
	if err := <-done; err != nil || res.Status != wire.NFS3OK || cookie == 0 {
		s.t.Fatalf("READDIRPLUS before the attack: %v, %v, cookie %d", err, res.Status, cookie)
	}
	return cookie, res.ResOK.CookieVerf
}

// lookUp returns the handles of names in the open export.
func (s *Stage) lookUp(names []string) (all []servertest.Handle) {
	s.t.Helper()
	for _, name := range names {
		h, err := s.honest["tcp"].Lookup(s.ctx, s.Open.Root, name)
		if err != nil {
			s.t.Fatalf("LOOKUP %s before the attack: %v", name, err)
		}
		all = append(all, h)
	}
	return all
}
