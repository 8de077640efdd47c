package server_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

const unitFile = root + "/systemd/nfsrdmad.service"

// unit returns the words of the values that the unit file has for a key.
func unit(t *testing.T, key string) []string {
	t.Helper()
	text, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), key+"="); found {
			words = append(words, strings.Fields(value)...)
		}
	}
	if len(words) == 0 {
		t.Fatalf("%s has no %s=", unitFile, key)
	}
	return words
}

func needSystemdAnalyze(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed")
	}
}

// installed returns copies of the unit files that name the program built from this tree.
func installed(t *testing.T) (units []string) {
	t.Helper()
	const program = "/usr/bin/nfsrdmad"
	dir := t.TempDir()
	for _, name := range []string{"nfsrdmad.service", "nfsrdmad.socket"} {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(unitFile), name))
		if err != nil {
			t.Fatal(err)
		}
		if name == "nfsrdmad.service" && !strings.Contains(string(text), "ExecStart="+program+" serve ") {
			t.Fatalf("the unit does not start %s", program)
		}
		units = append(units, filepath.Join(dir, name))
		if err := os.WriteFile(units[len(units)-1], []byte(strings.ReplaceAll(string(text), program, binary(t))), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return units
}

// systemd accepts the units, and gives the service an exposure level of less than 3.0 (of 10).
func TestUnitIsAccepted(t *testing.T) {
	needSystemdAnalyze(t)
	units := installed(t)
	out, err := exec.Command("systemd-analyze", append([]string{"verify", "--man=no", "--generators=no"}, units...)...).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	// The threshold is in tenths. The exit status reports the result.
	out, err = exec.Command("systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold=29", units[0]).CombinedOutput()
	if err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
}

// Type=notify: the daemon notifies systemd when it serves, when it reloads, with the
// result, and when it ends. It feeds the watchdog after calls to itself.
func TestNotifiesSystemd(t *testing.T) {
	if kind := unit(t, "Type"); !slices.Equal(kind, []string{"notify"}) {
		t.Fatalf("Type=%s", kind)
	}
	socket := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	said := func() string {
		t.Helper()
		b := make([]byte, 4096)
		if err := l.SetReadDeadline(time.Now().Add(hang)); err != nil {
			t.Fatal(err)
		}
		n, err := l.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	ip := ownLoopback()
	export := t.TempDir()
	config := writeFile(t, "nfsrdmad.toml", fmt.Sprintf("state_dir = %q\nrpcbind = false\ntcp = [%q]\nrdma = [%q]\n[[export]]\npath = %q\n",
		t.TempDir(), servertest.FreePort(t, ip), servertest.FreePort(t, ip), export))
	cmd := exec.Command(binary(t), "serve", "--config", config)
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+socket, "WATCHDOG_USEC=8000000")
	p := servertest.StartProcess(t, cmd)
	alive := func(got string) bool { return got == "WATCHDOG=1" }
	// next returns the next notification that is not from the watchdog.
	next := func() string {
		t.Helper()
		for {
			if got := said(); !alive(got) {
				return got
			}
		}
	}
	if got := next(); got != "READY=1\nSTATUS=serving" {
		t.Errorf("it said %q first", got)
	}
	if got := said(); !alive(got) {
		t.Errorf("it said %q to the watchdog", got)
	}
	for _, c := range []struct{ path, status string }{
		{filepath.Join(export, "none"), "STATUS=serving; not served: "}, {"", "STATUS=reload failed: the old configuration stays in force: "}, {export, "STATUS=serving"},
	} {
		text, err := os.ReadFile(config)
		if err != nil {
			t.Fatal(err)
		}
		head, _, _ := strings.Cut(string(text), "[[export]]")
		if err := os.WriteFile(config, fmt.Appendf(nil, "%s[[export]]\npath = %q\n", head, c.path), 0o600); err != nil {
			t.Fatal(err)
		}
		p.Signal(syscall.SIGHUP)
		if got := next(); !strings.HasPrefix(got, "RELOADING=1\nMONOTONIC_USEC=") {
			t.Errorf("it said %q at SIGHUP", got)
		}
		if got := next(); !strings.HasPrefix(got, "READY=1\n"+c.status) || strings.Count(got, "\n") != 1 {
			t.Errorf("it said %q when it had read the configuration", got)
		}
	}
	p.Signal(syscall.SIGTERM)
	// The default of drain_timeout, two seconds for the other steps, and one second for the
	// exit.
	if got := next(); got != "STOPPING=1\nEXTEND_TIMEOUT_USEC=33000000" {
		t.Errorf("it said %q at SIGTERM", got)
	}
	if status := p.Wait(); status != 0 {
		t.Errorf("exit status %d:\n%s", status, p.Output())
	}
}

// With the unit's environment a crash, or the watchdog, ends the daemon by a signal. Otherwise
// a crash in Go would have the exit status of a wrong configuration, after which systemd does
// not restart the daemon.
func TestCrashIsNoWrongConfiguration(t *testing.T) {
	cmd := exec.Command("sh", "-c", `ulimit -c 0; exec "$0" "$@"`, binary(t), "serve", "--state-dir", t.TempDir(), "--tcp", "127.0.0.1:0", "--rdma", "none", "--export", t.TempDir())
	cmd.Env = append(os.Environ(), unit(t, "Environment")...)
	p := servertest.StartProcess(t, cmd)
	p.AwaitLine("serving")
	p.Signal(syscall.SIGABRT)
	if status := p.Wait(); status != -1 || !slices.Equal(unit(t, "RestartPreventExitStatus"), []string{"2"}) {
		t.Errorf("exit status %d", status)
	}
	says(t, p, "goroutine ")
}

// asUnit returns a command prefix that runs a program with the rights of the unit: its
// capabilities without root, and no view of other users' processes. The user is daemonUser,
// because the unit's user may not exist here.
func asUnit(t *testing.T) []string {
	t.Helper()
	if user := unit(t, "User"); !slices.Equal(user, []string{"nfsrdmad"}) {
		t.Fatalf("User=%s", user)
	}
	set := func(key string) string {
		set := "-all"
		for _, name := range unit(t, key) {
			set += ",+" + strings.ToLower(strings.TrimPrefix(name, "CAP_"))
		}
		return set
	}
	id, ambient := strconv.Itoa(daemonUser), set("AmbientCapabilities")
	return []string{
		"unshare", "--mount", "sh", "-c", `mount -t proc -o hidepid="$0" proc /proc && exec "$@"`, unit(t, "ProtectProc")[0],
		"setpriv", "--reuid", id, "--regid", id, "--clear-groups", "--no-new-privs",
		"--inh-caps", ambient, "--ambient-caps", ambient, "--bounding-set", set("CapabilityBoundingSet"),
	}
}

// The unit allows all system calls that the daemon makes while it serves several users over
// both transports with the unit's capabilities.
func TestUnitAllowsTheSystemCalls(t *testing.T) {
	needSetpriv(t)
	needSystemdAnalyze(t)
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("strace is not installed")
	}
	allowed := make(map[string]bool)
	var expand func(words []string, allow bool)
	expand = func(words []string, allow bool) {
		for _, word := range words {
			if set, not := strings.CutPrefix(word, "~"); not {
				expand([]string{set}, !allow)
				continue
			}
			if !strings.HasPrefix(word, "@") {
				allowed[word] = allow
				continue
			}
			out, err := exec.Command("systemd-analyze", "--no-pager", "syscall-filter", word).Output()
			if err != nil {
				t.Fatalf("%s: %v", word, err)
			}
			var inner []string
			for line := range strings.Lines(string(out)) {
				if line = strings.TrimSpace(line); line != "" && line != word && line[0] != '#' {
					inner = append(inner, line)
				}
			}
			expand(inner, allow)
		}
	}
	expand(unit(t, "SystemCallFilter"), true)

	trace := filepath.Join(t.TempDir(), "trace")
	run := append(asUnit(t), "strace", "--follow-forks", "--quiet=all", "--summary-only", "--summary-columns=name", "--output", trace)
	// asUnit's restrictions hold for strace as well, which needs no further rights.
	dir := directory(t, 1001, 0o777)
	ip := ownLoopback()
	d := &daemon{tcp: servertest.FreePort(t, ip), rdma: servertest.FreePort(t, ip)}
	d.Process = startAs(t, run, "--state-dir", directory(t, daemonUser, 0o700), "--tcp", d.tcp.String(), "--rdma", d.rdma.String(),
		"--export", dir+":/,insecure,no_root_squash", "--show-mounts")
	d.AwaitLine("serving")
	ctx := testContext(t)
	for _, c := range d.dialBoth(t) {
		for _, uid := range []uint32{0, 1001, 1002} {
			c.Cred = servertest.As(uid, uid)
			everyCall(t, c)
		}
		if _, err := c.Mount(ctx, "/"); err != nil {
			t.Error(err)
		}
		c.Close()
	}
	signalChild(t, d.PID(), syscall.SIGTERM)
	if status := d.Wait(); status != 0 {
		t.Errorf("exit status %d:\n%s", status, d.Output())
	}
	made, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	seen := strings.Fields(string(made))
	if len(seen) < 40 {
		t.Errorf("the trace names %d system calls: %q", len(seen), seen)
	}
	for _, name := range seen {
		if strings.HasPrefix(name, "-") || name == "syscall" || name == "total" {
			continue
		}
		if !allowed[name] {
			t.Errorf("the daemon makes the system call %s, which the unit does not allow", name)
		}
	}
}

// signalChild signals the only child of a process.
func signalChild(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatalf("children of %d: %q", pid, b)
	}
	if err := syscall.Kill(child, s); err != nil {
		t.Fatal(err)
	}
}

// everyCall makes each call that changes something, and some calls that only read.
func everyCall(t *testing.T, c *servertest.Client) {
	t.Helper()
	ctx := testContext(t)
	dir, err := c.Mount(ctx, "/")
	if err != nil {
		t.Fatal(err)
	}
	try := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	h, err := c.Create(ctx, dir, "file", 0o644)
	try("CREATE", err)
	for _, how := range []wire.StableHow{wire.Unstable, wire.DataSync, wire.FileSync} {
		_, err = c.Write(ctx, h, 0, make([]byte, 100_000), how)
		try("WRITE", err)
	}
	try("COMMIT", c.Commit(ctx, h))
	_, err = c.Read(ctx, h, 0, make([]byte, 100_000))
	try("READ", err)
	at := func(name string) wire.DirOpArgs3 {
		return wire.DirOpArgs3{Dir: wire.FileHandle3{Data: dir}, Name: []byte(name)}
	}
	file := wire.FileHandle3{Data: h}
	mode := wire.Sattr3{Mode: wire.SetMode3{SetIt: true, Mode: 0o640}, Size: wire.SetSize3{SetIt: true, Size: 50}}
	for _, call := range []struct {
		p    wire.Procedure
		args servertest.Encoder
	}{
		{wire.ProcSetattr, &wire.Setattr3Args{Object: file, NewAttributes: mode}},
		{wire.ProcAccess, &wire.Access3Args{Object: file, Access: 0x3f}},
		{wire.ProcMkdir, &wire.Mkdir3Args{Where: at("directory")}},
		{wire.ProcSymlink, &wire.Symlink3Args{Where: at("symlink"), Symlink: wire.SymlinkData3{SymlinkData: xdr.Eligible{Data: []byte("file")}}}},
		{wire.ProcMknod, &wire.Mknod3Args{Where: at("fifo"), What: wire.MknodData3{Type: wire.NF3Fifo}}},
		{wire.ProcLink, &wire.Link3Args{FileHandle: file, Link: at("link")}},
		{wire.ProcRename, &wire.Rename3Args{From: at("link"), To: at("renamed")}},
		{wire.ProcReaddir, &wire.Readdir3Args{Dir: wire.FileHandle3{Data: dir}, Count: 8192}},
		{wire.ProcReaddirPlus, &wire.ReaddirPlus3Args{Dir: wire.FileHandle3{Data: dir}, DirCount: 4096, MaxCount: 8192}},
		{wire.ProcFsstat, &wire.Fsstat3Args{FSRoot: file}},
		{wire.ProcFsinfo, &wire.Fsinfo3Args{FSRoot: file}},
		{wire.ProcPathconf, &wire.Pathconf3Args{Object: file}},
		{wire.ProcRemove, &wire.Remove3Args{Object: at("renamed")}},
		{wire.ProcRemove, &wire.Remove3Args{Object: at("fifo")}},
		{wire.ProcRemove, &wire.Remove3Args{Object: at("symlink")}},
		{wire.ProcRmdir, &wire.Rmdir3Args{Object: at("directory")}},
		{wire.ProcRemove, &wire.Remove3Args{Object: at("file")}},
	} {
		try(call.p.String(), c.Status(ctx, call.p, call.args))
	}
}
