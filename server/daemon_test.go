package server_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
)

func writeFile(t testing.TB, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// The daemon uses the values of the configuration file. A flag overrides the file's value.
func TestFlagsOverFile(t *testing.T) {
	ip := ownLoopback()
	inFile, byFlag := t.TempDir(), t.TempDir()
	tcp, rdma := servertest.FreePort(t, ip).String(), servertest.FreePort(t, ip).String()
	config := writeFile(t, "nfsrdmad.toml", `
rdma = ["none"]
tcp = ["`+tcp+`"]
state_dir = "`+t.TempDir()+`"
log_format = "json"
[[export]]
path = "`+inFile+`"
name = "/file"
options = "insecure"
`)
	t.Run("file", func(t *testing.T) {
		line := nfsrdmad(t, "serve", "--config", config).AwaitLine("serving")
		for _, s := range []string{`"rdma":""`, `"tcp":"` + tcp + `"`, `"exports":["/file"]`} {
			if !strings.Contains(line, s) {
				t.Errorf("%s does not say %s", line, s)
			}
		}
	})
	t.Run("flags", func(t *testing.T) {
		line := nfsrdmad(t, "serve", "--config", config, "--rdma", rdma, "--tcp", "none", "--export", byFlag+":/flag,insecure").AwaitLine("serving")
		for _, s := range []string{`"rdma":"` + rdma + `"`, `"tcp":""`, `"exports":["/flag"]`} {
			if !strings.Contains(line, s) {
				t.Errorf("%s does not say %s", line, s)
			}
		}
	})
}

// Each fault in the configuration or the flags causes one line with its place and the
// remedy, and exit status 2.
func TestFaultsOfConfigurationExitWith2(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	export := "[[export]]\npath = \"" + dir + "\"\n"
	for _, c := range []struct {
		name, file string
		args       []string
		says       []string
	}{
		{"unknown key", "loglevel = \"x\"\n" + export, nil, []string{":1: ", `"loglevel"`, `did you mean "log_level"`}},
		{"bad network", export + "options = \"clients=10.0.0.0/33\"\n", nil, []string{":3: ", "10.0.0.0/33", "write 10.0.0.0/32"}},
		{"no directory", "[[export]]\npath = \"" + dir + "/gone\"\n", []string{"--tcp", "127.0.0.1:0"}, []string{":2: ", "is not there", "mkdir -p"}},
		{"bad option", export + "options = \"root\"\n", nil, []string{":3: ", `"root"`, `did you mean "root_squash"`}},
		{"two roots", export + "options = \"fsid=0\"\n" + export + "name = \"/b\"\noptions = \"fsid=0\"\n", nil, []string{":7: ", "fsid=0", "only one export"}},
		{"relative name", export + "name = \"data\"\n", nil, []string{":3: ", `write "/data"`}},
		{"name twice", export + export, nil, []string{":3: ", "give one of them another"}},
		{"no export", "log_level = \"info\"\n", nil, []string{"nothing to serve", "[[export]]"}},
		{"bad choice", "log_level = \"loud\"\n" + export, nil, []string{":1: ", "use one of"}},
		{"bad metrics address", "metrics = \"localhost\"\n" + export, nil, []string{":1: ", "metrics", "127.0.0.1:9427"}},
		{"more memory than there is", "[memory]\nceiling = \"1T\"\n" + export, []string{"--tcp", "127.0.0.1:0"}, []string{":2: ", "ceiling = 1T", "use less"}},
		{"no file", "", []string{"--config", dir + "/none.toml"}, []string{dir + "/none.toml", "--config"}},
		{"flag: directory", "", []string{"--export", dir + "/gone", "--tcp", "127.0.0.1:0"}, []string{"--export", "mkdir -p"}},
		{"flag: option", "", []string{"--export", dir + ",foo"}, []string{"--export", `"foo"`, "the options are ro rw"}},
		{"flag: name", "", []string{"--export", dir + ":/a", "--export", dir + ":/a"}, []string{"--export", `"/a"`, "give one of them another"}},
		{"flag: address", "", []string{"--export", dir, "--tcp", "eth0"}, []string{"--tcp", "IP:PORT"}},
		{"flags: nowhere to listen", "", []string{"--export", dir, "--tcp", "none"}, []string{"--tcp", "nothing to listen on", `":2049"`}},
		{"nowhere to listen", "tcp = [\"none\"]\n" + export, []string{"--tcp", "none"}, []string{"--tcp", "nothing to listen on"}},
		{"flag: an address and none", "", []string{"--export", dir, "--tcp", "none", "--tcp", ":2049"}, []string{"--tcp", "either"}},
		{"flag: level", "", []string{"--export", dir, "--log-level", "loud"}, []string{"--log-level", "use one of"}},
		{"flag: unknown", "", []string{"--exprots", dir}, []string{"--exprots", "--export"}},
		{"argument", "", []string{dir}, []string{"--export " + dir}},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"serve", "--state-dir", state}, c.args...)
			file := ""
			if c.file != "" {
				file = writeFile(t, "nfsrdmad.toml", c.file)
				args = append(args, "--config", file)
			}
			if !strings.Contains(strings.Join(c.args, " "), "--tcp") {
				args = append(args, "--tcp", "none")
			}
			args = append(args, "--rdma", "none")
			p := nfsrdmad(t, args...)
			if status := p.Wait(); status != 2 {
				t.Errorf("exit status %d, want 2", status)
			}
			out := p.Output()
			if strings.Contains(out, "\n") {
				t.Errorf("more than one line:\n%s", out)
			}
			if !strings.HasPrefix(c.says[0], "--") {
				c.says = append(c.says, file)
			}
			for _, s := range c.says {
				if !strings.Contains(out, s) {
					t.Errorf("%q does not say %q", out, s)
				}
			}
		})
	}
}

// Durations in flags need a unit, as in the file.
func TestDurationFlagsNeedAUnit(t *testing.T) {
	for _, c := range []struct {
		args []string
		says []string
	}{
		{[]string{"bench", "--duration", "30", "127.0.0.1"}, []string{"--duration", `30 has no unit: write "30s"`}},
		{[]string{"bench", "--duration", "0s", "127.0.0.1"}, []string{"--duration", "from 1ms to 24h"}},
		{[]string{"probe", "--timeout", "5", "127.0.0.1"}, []string{"--timeout", `5 has no unit: write "5s"`}},
		{[]string{"probe", "--timeout", "soon", "127.0.0.1"}, []string{"--timeout", "is not a duration"}},
		{[]string{"relay", "--timeout", "5", "--listen", "127.0.0.1:0", "127.0.0.1"}, []string{"--timeout", `5 has no unit: write "5s"`}},
	} {
		p := nfsrdmad(t, c.args...)
		if status := p.Wait(); status != 2 {
			t.Errorf("%q: exit status %d, want 2", c.args, status)
		}
		for _, s := range c.says {
			if !strings.Contains(p.Output(), s) {
				t.Errorf("%q: %q does not say %q", c.args, p.Output(), s)
			}
		}
	}
}

// If the machine refuses something, the exit status is 1, because the configuration is
// not at fault. There is one line with a remedy as well.
func TestRefusalsOfTheMachineExitWith1(t *testing.T) {
	ip := ownLoopback()
	busy, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, 0)))
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	taken := busy.Addr().String()
	damaged := t.TempDir()
	if err := os.WriteFile(filepath.Join(damaged, "handle.key"), []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	inUse := start(t, "insecure")
	for _, c := range []struct {
		name string
		args []string
		says []string
	}{
		{"TCP port in use", []string{"--tcp", taken, "--rdma", "none"}, []string{"TCP", taken, "address already in use", "stop it or choose another port"}},
		{"RDMA port in use", []string{"--tcp", "none", "--rdma", taken}, []string{"RDMA", taken, "address already in use", "stop it or choose another port"}},
		{"address of another machine", []string{"--tcp", "192.0.2.1:2049", "--rdma", "none"}, []string{"192.0.2.1", "ip address"}},
		{"state directory in use", []string{"--tcp", "127.0.0.1:0", "--rdma", "none", "--state-dir", inUse.state}, []string{inUse.state, "in use by another nfsrdmad", "--state-dir"}},
		{"key damaged", []string{"--tcp", "127.0.0.1:0", "--rdma", "none", "--state-dir", damaged}, []string{"handle.key is damaged: 5 bytes", "restore it"}},
		{"state directory is a file", []string{"--tcp", "127.0.0.1:0", "--rdma", "none", "--state-dir", filepath.Join(damaged, "handle.key")}, []string{"handle.key", "--state-dir"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := nfsrdmad(t, append([]string{"serve", "--state-dir", t.TempDir(), "--export", t.TempDir()}, c.args...)...)
			if status := p.Wait(); status != 1 {
				t.Errorf("exit status %d, want 1", status)
			}
			out := p.Output()
			if strings.Contains(out, "\n") {
				t.Errorf("more than one line:\n%s", out)
			}
			for _, s := range c.says {
				if !strings.Contains(out, s) {
					t.Errorf("%q does not say %q", out, s)
				}
			}
		})
	}
}

// Handles stay valid over a restart and over SIGKILL, because the key is on stable
// storage before the first handle is given out.
func TestHandlesOutliveTheDaemon(t *testing.T) {
	d := start(t, "insecure,no_root_squash")
	ctx := testContext(t)
	c := d.dialBoth(t)["tcp"]
	dir, err := c.Mount(ctx, "/")
	if err != nil {
		t.Fatal(err)
	}
	h, err := c.Create(ctx, dir, "file", 0o644)
	if err != nil {
		t.Fatal(err)
	}
	for _, how := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		d.Signal(how)
		d.Wait()
		d = startOn(t, d.export, d.state, "insecure,no_root_squash")
		for transport, c := range d.dialBoth(t) {
			if _, err := c.GetAttr(ctx, h); err != nil {
				t.Errorf("%s after %v: %v", transport, how, err)
			}
		}
	}
	d.Signal(syscall.SIGTERM)
	d.Wait()
	if err := os.Remove(filepath.Join(d.state, "handle.key")); err != nil {
		t.Fatal(err)
	}
	d = startOn(t, d.export, d.state, "insecure,no_root_squash")
	var status *servertest.StatusError
	if _, err := d.dialBoth(t)["tcp"].GetAttr(ctx, h); !errors.As(err, &status) {
		t.Errorf("a handle sealed with a key that is gone: %v", err)
	}
}

// SIGTERM ends a daemon with idle clients at once, with status 0.
func TestSigtermWithIdleClients(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		d := start(t, "insecure")
		ctx := testContext(t)
		for transport, c := range d.dialBoth(t) {
			if _, err := c.Mount(ctx, "/"); err != nil {
				t.Errorf("%s: %v", transport, err)
			}
		}
		d.Signal(signal)
		if status := d.Wait(); status != 0 {
			t.Errorf("exit status %d after %v:\n%s", status, signal, d.Output())
		}
		if strings.Contains(d.Output(), "did not disconnect") || strings.Contains(d.Output(), "in progress") {
			t.Errorf("it waited:\n%s", d.Output())
		}
	}
}

// If SIGTERM comes while clients create files, each answered CREATE is on the disk. Callers only
// notice that their connection ends.
func TestSigtermUnderLoad(t *testing.T) {
	for _, transport := range []string{"tcp", "rdma"} {
		t.Run(transport, func(t *testing.T) {
			d := start(t, "insecure,no_root_squash")
			ctx := testContext(t)
			c := d.dialBoth(t)[transport]
			dir, err := c.Mount(ctx, "/")
			if err != nil {
				t.Fatal(err)
			}
			const callers = 16
			type made struct {
				names []string
				err   error
			}
			results := make(chan made, callers)
			busy := make(chan struct{}, callers)
			for caller := range callers {
				go func() {
					var m made
					for i := 0; m.err == nil; i++ {
						name := strings.Repeat("x", 1+caller) + "-" + string(rune('a'+i%26)) + strings.Repeat("y", i/26%100)
						if _, m.err = c.Create(ctx, dir, name, 0o600); m.err == nil {
							m.names = append(m.names, name)
						}
						if i == 3 {
							busy <- struct{}{}
						}
					}
					results <- m
				}()
			}
			for range callers {
				<-busy
			}
			d.Signal(syscall.SIGTERM)
			if status := d.Wait(); status != 0 {
				t.Errorf("exit status %d:\n%s", status, d.Output())
			}
			for range callers {
				m := <-results
				if !errors.Is(m.err, rpc.ErrCallLost) {
					t.Errorf("a call ended with %v", m.err)
				}
				for _, name := range m.names {
					if _, err := os.Stat(filepath.Join(d.export, name)); err != nil {
						t.Errorf("CREATE was answered: %v", err)
					}
				}
			}
		})
	}
}

func TestVersion(t *testing.T) {
	p := nfsrdmad(t, "version")
	if status := p.Wait(); status != 0 || !regexp.MustCompile(`^nfsrdmad v0-test \(go1\.\d+`).MatchString(p.Output()) {
		t.Errorf("status %d: %s", status, p.Output())
	}
	for _, args := range [][]string{{"doctor", "me"}, {"version", "2"}, {"sing"}} {
		p = nfsrdmad(t, args...)
		if status := p.Wait(); status != 2 || strings.Contains(p.Output(), "\n") {
			t.Errorf("%v: exit status %d:\n%s", args, status, p.Output())
		}
	}
}

// A secure export does not serve TCP clients on unprivileged ports. RDMA clients count as
// privileged, as with Linux's server.
func TestSecureExport(t *testing.T) {
	d := start(t, "secure")
	ctx := testContext(t)
	for transport, c := range d.dialBoth(t) {
		_, err := c.Mount(ctx, "/")
		if served := err == nil; served != (transport == "rdma") {
			t.Errorf("%s from an unprivileged port: %v", transport, err)
		}
	}
	d.AwaitLine("mount refused")
	says(t, d.Process, "mount refused", d.tcp.Addr().String()[:4], `"path": "/"`, `"export": "/"`, "the port is not privileged")
}
