package server_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/server/servertest"
)

// A machine stands for another computer: a network namespace with a loopback device, and a mount
// namespace with empty directories /run and /var/lib. So a separate rpcbind can run there.
type machine struct {
	t     *testing.T
	inner *servertest.Process
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making namespaces takes root")
	}
	for _, tool := range []string{"unshare", "nsenter", "ip", "rpcbind", "rpcinfo"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	m := &machine{t: t}
	m.inner = servertest.StartProcess(t, exec.Command("unshare", "--net", "--mount", "--propagation", "private", "sh", "-ec",
		"mount -t tmpfs none /run; mkdir -p /run/rpcbind; ip link set lo up; echo ready; exec sleep 1000000"))
	m.inner.AwaitLine("ready")
	return m
}

// command returns a command that runs in the machine.
func (m *machine) command(name string, args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--net", "--mount", "--target", fmt.Sprint(m.inner.PID()), name}, args...)...)
}

// rpcbind starts rpcbind in the machine.
func (m *machine) rpcbind() *servertest.Process {
	m.t.Helper()
	p := servertest.StartProcess(m.t, m.command("rpcbind", "-f", "-w"))
	p.AwaitSocket(filepath.Join("/proc", fmt.Sprint(m.inner.PID()), "root/run/rpcbind.sock"))
	return p
}

// registered returns the services of NFS and MOUNT that rpcbind knows, as "program version
// netid address".
func (m *machine) registered() []string { return m.mapped("100003", "100005") }

// mapped returns what rpcbind knows of these programs.
func (m *machine) mapped(programs ...string) []string {
	m.t.Helper()
	out, err := m.command("rpcinfo").CombinedOutput()
	if err != nil {
		m.t.Fatalf("rpcinfo: %v\n%s", err, out)
	}
	var all []string
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) >= 4 && slices.Contains(programs, f[0]) {
			all = append(all, strings.Join(f[:4], " "))
		}
	}
	slices.Sort(all)
	return all
}

// comes waits until as many services are registered, and returns them. The daemon registers them after it
// has begun to serve.
func (m *machine) comes(n int) (all []string) {
	m.t.Helper()
	await(m.t, testContext(m.t), fmt.Sprint(n, " services are registered"), func() bool {
		all = m.registered()
		return len(all) == n
	})
	return all
}

// The locks of version 3 are registered on TCP's port. Another lock manager that answers keeps its registration, and a
// line of the log says so (NLM-40).
func TestRegistersLocks(t *testing.T) {
	m := newMachine(t)
	defer m.rpcbind().Kill()
	serve := func(port string) *servertest.Process {
		p := servertest.StartProcess(t, m.command(binary(t), "serve", "--state-dir", t.TempDir(), "--export", t.TempDir()+":/", "--rdma", "none", "--tcp", "127.0.0.1:"+port))
		p.AwaitLine("serving")
		return p
	}
	locks := func() []string { return m.mapped("100021", "100024") }
	want := []string{"100021 1 tcp 127.0.0.1.8.1", "100021 1 udp 127.0.0.1.8.1", "100021 3 tcp 127.0.0.1.8.1", "100021 3 udp 127.0.0.1.8.1",
		"100021 4 tcp 127.0.0.1.8.1", "100021 4 udp 127.0.0.1.8.1", "100024 1 tcp 127.0.0.1.8.1", "100024 1 udp 127.0.0.1.8.1"}
	first := serve("2049")
	await(t, testContext(t), "the locks are registered", func() bool { return slices.Equal(locks(), want) })
	second := serve("3049")
	second.AwaitLine("another lock manager (program 100021)")
	if got := locks(); !slices.Equal(got, want) {
		t.Errorf("registered: %q", got)
	}
	for _, p := range []*servertest.Process{second, first} {
		p.Signal(syscall.SIGTERM)
		p.Wait()
	}
	if left := locks(); len(left) > 0 {
		t.Errorf("left registered: %q", left)
	}
}

func TestRegistersWithRpcbind(t *testing.T) {
	m := newMachine(t)
	defer m.rpcbind().Kill()
	serve := func(args ...string) *servertest.Process {
		p := servertest.StartProcess(t, m.command(binary(t), append([]string{"serve", "--state-dir", t.TempDir(), "--export", t.TempDir() + ":/"}, args...)...))
		p.AwaitLine("serving")
		return p
	}
	end := func(p *servertest.Process) {
		t.Helper()
		p.Signal(syscall.SIGTERM)
		if status := p.Wait(); status != 0 {
			t.Errorf("exit status %d:\n%s", status, p.Output())
		}
		if left := m.registered(); len(left) != 0 {
			t.Errorf("left registered: %q", left)
		}
	}
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"every address", nil, []string{
			"100003 3 rdma 0.0.0.0.78.81", "100003 3 rdma6 ::.78.81", "100003 3 tcp 0.0.0.0.8.1", "100003 3 tcp6 ::.8.1",
			"100003 4 rdma 0.0.0.0.78.81", "100003 4 rdma6 ::.78.81", "100003 4 tcp 0.0.0.0.8.1", "100003 4 tcp6 ::.8.1",
			"100005 3 tcp 0.0.0.0.8.1", "100005 3 tcp6 ::.8.1",
		}},
		{"one address", []string{"--tcp", "127.0.0.1:3049", "--rdma", "[::1]:20050"}, []string{
			"100003 3 rdma6 ::1.78.82", "100003 3 tcp 127.0.0.1.11.233", "100003 4 rdma6 ::1.78.82", "100003 4 tcp 127.0.0.1.11.233", "100005 3 tcp 127.0.0.1.11.233",
		}},
		{"TCP alone", []string{"--tcp", "127.0.0.1:2049", "--rdma", "none"}, []string{
			"100003 3 tcp 127.0.0.1.8.1", "100003 4 tcp 127.0.0.1.8.1", "100005 3 tcp 127.0.0.1.8.1",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := serve(c.args...)
			if got := m.comes(len(c.want)); !slices.Equal(got, c.want) {
				t.Errorf("registered:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
			if strings.Contains(p.Output(), "rpcbind") {
				t.Errorf("it complains:\n%s", p.Output())
			}
			end(p)
		})
	}
	t.Run("what a killed daemon left behind is replaced", func(t *testing.T) {
		p := serve("--tcp", ":2049")
		m.comes(10)
		p.Kill()
		p = serve("--tcp", ":3049", "--rdma", "none")
		await(t, testContext(t), "the service of the second daemon is registered", func() bool {
			return slices.Contains(m.registered(), "100003 3 tcp 0.0.0.0.11.233")
		})
		p.Signal(syscall.SIGTERM)
		p.Wait()
	})
	t.Run("rpcbind = false", func(t *testing.T) {
		before := m.registered()
		config := writeFile(t, "nfsrdmad.toml", "rpcbind = false\nstate_dir = \""+t.TempDir()+"\"\n[[export]]\npath = \""+t.TempDir()+"\"\n")
		p := servertest.StartProcess(t, m.command(binary(t), "serve", "--config", config))
		p.AwaitLine("serving")
		if got := m.registered(); !slices.Equal(got, before) {
			t.Errorf("registered: %q", got)
		}
		p.Kill()
	})
}

// A second daemon on another port does not change the first one's registration, neither while it
// runs nor at its end. It logs that another server is registered.
func TestASecondDaemonLeavesTheRegistrationAlone(t *testing.T) {
	m := newMachine(t)
	defer m.rpcbind().Kill()
	serve := func(port int) *servertest.Process {
		p := servertest.StartProcess(t, m.command(binary(t), "serve", "--state-dir", t.TempDir(), "--export", t.TempDir()+":/",
			"--rdma", fmt.Sprintf("127.0.0.1:%d", port+1), "--tcp", fmt.Sprintf("127.0.0.1:%d", port)))
		p.AwaitLine("serving")
		return p
	}
	end := func(p *servertest.Process) {
		t.Helper()
		p.Signal(syscall.SIGTERM)
		if status := p.Wait(); status != 0 {
			t.Errorf("exit status %d:\n%s", status, p.Output())
		}
	}
	first := serve(2049)
	want := m.comes(5)
	second := serve(3049)
	second.AwaitLine("another NFS server is registered with rpcbind")
	if got := m.registered(); len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("registered beside the second:\n%q, before:\n%q", got, want)
	}
	end(second)
	if got := m.registered(); !slices.Equal(got, want) {
		t.Errorf("registered after the second:\n%q, before:\n%q", got, want)
	}
	end(first)
	if left := m.registered(); len(left) != 0 {
		t.Errorf("left registered: %q", left)
	}
}

// A restarted rpcbind forgets the registration. SIGHUP makes the daemon register again.
func TestRegistersAgainWhenRpcbindRestarts(t *testing.T) {
	m := newMachine(t)
	sock := filepath.Join("/proc", fmt.Sprint(m.inner.PID()), "root/run/rpcbind.sock")
	start := func() *servertest.Process {
		p := servertest.StartProcess(t, m.command("rpcbind", "-f"))
		p.AwaitSocket(sock)
		return p
	}
	r := start()
	p := servertest.StartProcess(t, m.command(binary(t), "serve", "--state-dir", t.TempDir(), "--export", t.TempDir()+":/", "--rdma", "none"))
	p.AwaitLine("serving")
	want := m.comes(6)
	r.Signal(syscall.SIGTERM)
	r.Wait()
	os.Remove(sock)
	p.Signal(syscall.SIGHUP)
	p.AwaitLine("not registered with rpcbind")
	r = start()
	defer r.Kill()
	p.Signal(syscall.SIGHUP)
	p.AwaitLine("\tregistered with rpcbind")
	if got := m.registered(); len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("registered:\n%q, before:\n%q", got, want)
	}
	p.Signal(syscall.SIGTERM)
	p.Wait()
}

// Without rpcbind the daemon logs that once, and serves.
func TestGoesOnWithoutRpcbind(t *testing.T) {
	m := newMachine(t)
	p := servertest.StartProcess(t, m.command(binary(t), "serve", "--state-dir", t.TempDir(), "--export", t.TempDir()))
	p.AwaitLine("not registered with rpcbind")
	if n := strings.Count(p.Output(), "not registered with rpcbind"); n != 1 {
		t.Errorf("it speaks %d times of rpcbind:\n%s", n, p.Output())
	}
	p.Signal(syscall.SIGTERM)
	if status := p.Wait(); status != 0 {
		t.Errorf("exit status %d:\n%s", status, p.Output())
	}
}

// An rpcbind that accepts connections and never answers delays neither the daemon's start nor
// its end.
func TestEndsWhileRpcbindDoesNotAnswer(t *testing.T) {
	m := newMachine(t)
	silent, err := net.Listen("unix", filepath.Join("/proc", fmt.Sprint(m.inner.PID()), "root/run/rpcbind.sock"))
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan net.Conn, 100)
	go func() {
		for {
			c, err := silent.Accept()
			if err != nil {
				close(asked)
				return
			}
			asked <- c
		}
	}()
	defer func() {
		silent.Close()
		for c := range asked {
			c.Close()
		}
	}()
	config := writeFile(t, "nfsrdmad.toml", fmt.Sprintf("drain_timeout = %q\n", shortDrain))
	serve := func() *servertest.Process {
		return servertest.StartProcess(t, m.command(binary(t), "serve", "--config", config, "--state-dir", t.TempDir(), "--tcp", "127.0.0.1:2049", "--rdma", "none", "--export", t.TempDir()+":/"))
	}
	t.Run("at its start", func(t *testing.T) {
		p := serve()
		asked := <-asked
		defer asked.Close()
		ends(t, p, syscall.SIGTERM, inOrder)
	})
	t.Run("when it has served", func(t *testing.T) {
		p := serve()
		p.AwaitLine("serving")
		p.AwaitLine("not registered with rpcbind")
		ends(t, p, syscall.SIGTERM, inOrder)
	})
}
