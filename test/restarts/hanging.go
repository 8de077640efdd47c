package restarts

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A hanging is one daemon after the other with two exports: /hangs, whose file system hangs for most of the time, and
// /works.
type hanging struct {
	t       testing.TB
	program string
	config  string
	state   string
	target  client.Target
	paths   map[string]string // directories, by the name of the export
	dirs    map[string]client.Handle
	process *servertest.Process
	begun   time.Time
}

// A holder is a client that has locked a file in each export.
type holder struct {
	*caller
	files [2]*file // in /hangs and in /works
	locks [2]*lock
}

const (
	inHangs, inWorks = 0, 1
	// unfinished is the exit status of a daemon that has left something behind.
	unfinished = 3
)

func newHanging(t testing.TB, program, hangs, works string) *hanging {
	h := &hanging{
		t: t, program: program, config: filepath.Join(t.TempDir(), "nfsrdmad.toml"), state: t.TempDir(),
		paths: map[string]string{"hangs": hangs, "works": works}, dirs: make(map[string]client.Handle),
	}
	at := servertest.FreePort(t, netip.MustParseAddr("127.0.0.1"))
	h.target = client.Target{Transport: client.TCP, Host: at.Addr().String(), Port: int(at.Port()), Cred: client.Self()}
	return h
}

// configure writes the configuration file with these exports.
func (h *hanging) configure(exports ...string) {
	h.t.Helper()
	text := fmt.Sprintf("tcp = [\"%s:%d\"]\nrdma = [\"none\"]\nrpcbind = false\nstate_dir = %q\ndrain_timeout = \"1s\"\n[nfs]\nlease_time = %q\n",
		h.target.Host, h.target.Port, h.state, lease)
	for _, name := range exports {
		text += fmt.Sprintf("[[export]]\npath = %q\nname = \"/%s\"\noptions = \"rw,insecure,no_root_squash\"\n", h.paths[name], name)
	}
	if err := os.WriteFile(h.config, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// start starts the next daemon.
func (h *hanging) start() {
	h.t.Helper()
	c := exec.Command(h.program, "serve", "--config", h.config)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	h.begun, h.process = time.Now(), servertest.StartProcess(h.t, c)
	h.process.AwaitLine("serving")
}

// reload makes the daemon read its configuration again, and returns the line that it logs then.
func (h *hanging) reload() string {
	h.t.Helper()
	h.process.Signal(syscall.SIGHUP)
	return h.process.AwaitLine("configuration read again")
}

// step does one thing, which must succeed while /hangs hangs. It has as much time as a slow machine needs.
func (h *hanging) step(what string, do func() error) {
	h.t.Helper()
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		if err != nil {
			h.t.Fatalf("%s: %v\n%s", what, err, h.process.Output())
		}
	case <-time.After(patience):
		h.t.Fatalf("this does not end: %s\n%s", what, h.process.Output())
	}
}

// holder returns a client, which does not know the daemon yet, and makes its files.
func (h *hanging) holder(name string, minor uint32, backing map[string]string) *holder {
	h.t.Helper()
	c := &holder{caller: &caller{name: fmt.Sprintf("%s of 4.%d", name, minor), minor: minor}}
	c.verifier[0] = 1
	for i, export := range []string{"hangs", "works"} {
		c.files[i] = &file{name: c.name}
		if err := os.WriteFile(filepath.Join(backing[export], c.name), []byte("locked"), 0o666); err != nil {
			h.t.Fatal(err)
		}
	}
	return c
}

// arrives makes the client known to the daemon, finds its files there, and then does more.
func (h *hanging) arrives(c *holder, more func(*holder) error) error {
	if err := c.arrive(h.target); err != nil {
		return err
	}
	for i, export := range []string{"hangs", "works"} {
		var err error
		f := c.files[i]
		if h.dirs[export] == nil {
			if h.dirs[export], err = c.caller.find(nil, export); err != nil {
				return err
			}
		}
		if f.dir = h.dirs[export]; f.handle == nil {
			if f.handle, err = c.caller.find(f.dir, f.name); err != nil {
				return err
			}
		}
	}
	return more(c)
}

// take locks the client's files.
func (h *hanging) take(c *holder) (err error) {
	if err := c.done(); err != nil {
		return err
	}
	for i, f := range c.files {
		if c.locks[i], err = c.take(f, false); err != nil {
			return fmt.Errorf("locking file %d: %w", i, err)
		}
	}
	return nil
}

// claim claims the locks that the client had at the last daemon. If the grace period may be over already, because the
// machine is slow, it takes them again instead.
func (h *hanging) claim(c *holder) (err error) {
	for i, f := range c.files {
		c.locks[i], err = c.take(f, true)
		if client.StatusOf(err) == nfs4wire.NFS4ErrNoGrace && time.Since(h.begun) >= lease {
			return h.take(c)
		}
		if err != nil {
			return fmt.Errorf("claiming file %d: %w", i, err)
		}
	}
	return c.done()
}

// awaits asks for the lock on a file until it is granted, and gives it back then. While it asks, the other clients renew
// their leases.
func (h *hanging) awaits(c *holder, f *file, others []*holder) error {
	for ; ; time.Sleep(delay) {
		for _, o := range others {
			if err := o.renew(); err != nil {
				return fmt.Errorf("renewal by %s: %w", o.name, err)
			}
		}
		got, err := c.take(f, false)
		switch client.StatusOf(err) {
		case nfs4wire.NFS4ErrGrace, nfs4wire.NFS4ErrDenied:
		default:
			if err != nil {
				return err
			}
			return c.caller.giveBack(f, got)
		}
	}
}

// sticks makes the client read the file that it has locked in /hangs, which hangs. ended gets a value when the call has
// ended, however it ends.
func (h *hanging) sticks(c *holder, ended chan<- struct{}) error {
	b, err := c.beside(h.target)
	if err != nil {
		return err
	}
	go func() {
		_ = b.read(c.files[inHangs], c.locks[inHangs])
		b.leave()
		ended <- struct{}{}
	}()
	return nil
}

// leavesBehind ends the daemon with SIGTERM. It must say that it leaves behind what is in /hangs.
func (h *hanging) leavesBehind(letGo func()) {
	h.t.Helper()
	h.process.Signal(syscall.SIGTERM)
	line := h.process.AwaitLine("some steps of the shutdown did not finish")
	if !strings.Contains(line, "/hangs") {
		h.t.Errorf("it does not name the export: %s", line)
	}
	letGo()
	if status := h.process.Wait(); status != unfinished {
		h.t.Errorf("exit status %d, want %d:\n%s", status, unfinished, h.process.Output())
	}
}
