//go:build kernel

package kernel

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// A unit is the daemon under systemd, installed on a lab.Machine as docs/running.md says.
type unit struct {
	*server
	machine *lab.Machine
	process string // the main process's id in the machine, when await last saw it
}

// Names on the unit's machine.
const (
	unitName   = "nfsrdmad.service"
	unitConfig = "/etc/nfsrdmad/nfsrdmad.toml"
	unitExport = "/srv/data" // a tmpfs
)

// installUnit boots a machine with this version of systemd, and installs and starts the unit with
// the commands of docs/running.md.
func installUnit(t *testing.T, version lab.Systemd, program string) *unit {
	t.Helper()
	tree := lab.Folder(t, "tree")
	install, start := unitTree(t, tree, program)
	n := lab.NewNetwork(t)
	u := &unit{server: &server{t: t, network: n}, machine: lab.BootMachine(t, n, version, tree)}
	u.folder = u.machine.Path(unitExport)
	u.machine.Run("sh", "-ec", "mkdir "+unitExport+"; mount -t tmpfs -o mode=755 data "+unitExport)
	u.machine.Run("sh", "-ec", "cd "+tree+"\n"+install)
	u.configure(exportOf(unitExport, "/data"))
	u.machine.Run("sh", "-ec", start)
	u.await("at the start")
	return u
}

// unitTree puts into a folder what the commands of docs/running.md install, and returns these
// commands and the last one, which starts the unit. The page tells users to write an export into
// the configuration before the last command.
func unitTree(t *testing.T, tree, program string) (install, start string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/running.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := strings.Split(strings.TrimSpace(commandsOf(string(text), "With systemd", "")), "\n")
	if commands[0] != "make build" {
		t.Fatalf("the first command in docs/running.md is %q, not make build", commands[0])
	}
	copyTo(t, program, filepath.Join(tree, "bin/nfsrdmad"), 0o755)
	for _, file := range []string{"configs/nfsrdmad.toml", "systemd/nfsrdmad.service", "systemd/nfsrdmad.socket", "systemd/sysusers.conf"} {
		copyTo(t, filepath.Join("../..", file), filepath.Join(tree, file), 0o644)
	}
	last := len(commands) - 1
	return strings.Join(commands[1:last], "\n"), commands[last]
}

func exportOf(path, name string) string {
	return fmt.Sprintf("\n[[export]]\npath = %q\nname = %q\noptions = \"rw,no_root_squash\"\n", path, name)
}

// configure writes the configuration that docs/running.md installs, with more text at its end.
func (u *unit) configure(more string) {
	u.t.Helper()
	text, err := os.ReadFile("../../configs/nfsrdmad.toml")
	if err != nil {
		u.t.Fatal(err)
	}
	u.machine.Write(unitConfig, string(text)+more)
}

func copyTo(t testing.TB, from, to string, mode os.FileMode) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o755)
	}
	if err == nil {
		err = os.WriteFile(to, text, mode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// show returns a property of the unit, as systemctl shows it.
func (u *unit) show(property string) string {
	u.t.Helper()
	return strings.TrimSpace(u.machine.Run("systemctl", "show", "--value", "--property="+property, unitName))
}

// unitLimit is the longest time that await and awaitJournal wait.
const unitLimit = 2 * time.Minute

// await waits until the unit is active with another main process than at the last call, and fails
// the test unless the daemon then answers clients over both transports.
func (u *unit) await(when string) {
	u.t.Helper()
	for deadline := time.Now().Add(unitLimit); ; time.Sleep(100 * time.Millisecond) {
		process := u.show("MainPID")
		if u.show("ActiveState") == "active" && process != u.process {
			u.process = process
			break
		}
		if time.Now().After(deadline) {
			u.t.Fatalf("%s: the unit is %s with main process %s, which was %s before", when, u.show("ActiveState"), process, u.process)
		}
	}
	for _, transport := range transports {
		u.machine.Run("nfsrdmad", "probe", lab.Host, "--transport", transport)
	}
}

// journal returns the unit's lines in the journal, those of systemd included.
func (u *unit) journal() string {
	u.t.Helper()
	u.machine.Run("journalctl", "--sync")
	return u.machine.Run("journalctl", "--no-pager", "--output=cat", "--unit="+unitName)
}

// awaitJournal waits until the unit's journal has the text.
func (u *unit) awaitJournal(text string) {
	u.t.Helper()
	for deadline := time.Now().Add(unitLimit); !strings.Contains(u.journal(), text); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			u.t.Fatalf("the journal has no %q", text)
		}
	}
}

// reload makes the daemon read its configuration again. The status of the unit then has to contain the
// text, and systemctl to fail unless that begins with "serving".
func (u *unit) reload(status string) {
	u.t.Helper()
	out, err := u.machine.Try("systemctl", "reload", unitName)
	if right := strings.HasPrefix(status, "serving"); right != (err == nil) {
		u.t.Fatalf("systemctl reload that leads to the status %q: %v %s", status, err, out)
	}
	if text := u.show("StatusText"); !strings.Contains(text, status) {
		u.t.Fatalf("after a reload the status is %q, not %q", text, status)
	}
	if process := u.show("MainPID"); process != u.process {
		u.t.Fatalf("the main process was %s before the reload, and is %s", u.process, process)
	}
}

// dropIn adds a setting to the unit, as systemctl edit does.
func (u *unit) dropIn(name, setting string) {
	u.t.Helper()
	u.machine.Write("/etc/systemd/system/"+unitName+".d/"+name+".conf", "[Service]\n"+setting+"\n")
	u.machine.Run("systemctl", "daemon-reload")
}

// confined fails the test unless the restrictions of the unit file hold for the main process.
func (u *unit) confined() {
	u.t.Helper()
	var capabilities uint64
	for _, c := range []int{unix.CAP_DAC_READ_SEARCH, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_CHOWN, unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_MKNOD} {
		capabilities |= 1 << c
	}
	user := strings.TrimSpace(u.machine.Run("id", "--user", "nfsrdmad"))
	if user == "0" {
		u.t.Error("the user nfsrdmad is root")
	}
	want := map[string]string{"Uid": user + "\t" + user + "\t" + user + "\t" + user, "NoNewPrivs": "1", "Seccomp": "2"}
	for _, set := range []string{"CapEff", "CapBnd", "CapAmb"} {
		want[set] = fmt.Sprintf("%016x", capabilities)
	}
	status := u.machine.Run("cat", "/proc/"+u.process+"/status")
	for key, value := range want {
		if !strings.Contains(status, "\n"+key+":\t"+value+"\n") {
			u.t.Errorf("%s of the daemon is not %q:\n%s", key, value, status)
		}
	}
	// A device that the unit does not allow can be opened outside of its control group, and not in
	// it.
	u.machine.Run("mknod", "/run/tun", "c", "10", "200")
	u.machine.Run("sh", "-c", ": <>/run/tun")
	in := "echo $$ >/sys/fs/cgroup/system.slice/" + unitName + "/cgroup.procs || exit; "
	u.machine.Run("bash", "-c", in+": <>/dev/null")
	if out, err := u.machine.Try("bash", "-c", in+": <>/run/tun"); err == nil || !strings.Contains(out, "Operation not permitted") {
		u.t.Errorf("a process of the unit opens /dev/net/tun: %v %s", err, out)
	}
	// The files of /usr, and the processes of other users, are not for the daemon.
	if out, err := u.machine.Try("nsenter", "--mount", "--target", u.process, "touch", "/usr/new"); err == nil || !strings.Contains(out, "Read-only") {
		u.t.Errorf("the daemon's /usr: %v %s", err, out)
	}
	if proc := u.machine.Run("nsenter", "--mount", "--target", u.process, "findmnt", "--noheadings", "--output", "OPTIONS", "/proc"); !strings.Contains(proc, "hidepid=invisible") {
		u.t.Errorf("the daemon's /proc is mounted with %s", proc)
	}
}

// With the unit file as it is, and all its restrictions in force, the daemon serves clients over
// both transports. It reads a changed configuration, and goes on with the old one if the new one is
// wrong. systemd starts it again when it crashes and when it hangs, but not if its configuration is
// wrong, and clients keep their locks. A connection to the socket unit starts the daemon.
func TestUnit(t *testing.T) {
	t.Parallel()
	needsDaemon(t)
	versions := []lab.Systemd{lab.Systemd254}
	if everything() {
		versions = append(versions, lab.Systemd252)
	}
	program := build(t, "cmd/nfsrdmad")
	for _, version := range versions {
		t.Run(string(version), func(t *testing.T) {
			t.Parallel()
			u := installUnit(t, version, program)
			u.confined()
			u.reloaded()
			client := u.work("tcp", "rdma/4.2")
			u.restarted()
			client.Signal("go-on")
			client.Await("written")
			client.Signal("unlock")
			client.Succeed()
			u.stopped()
		})
	}
}

// On a machine without RDMA devices the program for them serves clients by the software RNIC. If
// the configuration demands devices, it opens librdmacm and libibverbs under the unit's
// restrictions, and its error says that there is no device.
func TestUnitVerbs(t *testing.T) {
	t.Parallel()
	needsDaemon(t)
	if devices, _ := filepath.Glob("/sys/class/infiniband*"); len(devices) > 0 {
		t.Skip("this machine has RDMA devices, or their modules")
	}
	u := installUnit(t, lab.Systemd254, build(t, "cmd/nfsrdmad", "-tags", "verbs,netgo,osusergo"))
	u.confined()
	u.machine.Write(unitConfig, "[rnic]\nprovider = \"verbs\"\n"+exportOf(unitExport, "/data"))
	if out, err := u.machine.Try("systemctl", "restart", unitName); err == nil {
		t.Errorf("the unit starts without a device: %s", out)
	}
	u.awaitJournal("no RDMA device that this process can open")
}

// The unit serves clients through an RDMA device of a machine whose first process is systemd: the
// unit loads rdma_ucm before its start, its rule for devices lets the daemon open those of RDMA and
// no others, and its limit of locked memory suffices. A client over rxe makes device nodes, and
// keeps a lock while the unit is restarted. The daemon answers systemd's watchdog, and the device
// can be removed and come back.
func TestUnitWithDevice(t *testing.T) {
	if !everything() {
		t.Skip("make test-all runs it: TestUnit and TestDevices show the unit and the device each alone")
	}
	t.Parallel()
	tree := t.TempDir() // Guests see it at the same path.
	install, start := unitTree(t, tree, build(t, "cmd/nfsrdmad", "-tags", "verbs,netgo,osusergo"))
	s := &server{t: t, network: lab.NewNetworkOf(t, jumbo)}
	d := s.runOnDevice("rxe", lab.Options{Kernel: lab.Stock6_12, Systemd: lab.Systemd254, CPUs: 1, Limit: 40 * time.Minute},
		script(t, "unit_device"), "in_unit", tree, exportOf("/srv/work", "/work"), install, start)
	d.scene("confined")
	client := s.bootAll(lab.Options{Limit: 25 * time.Minute, Address: 15, Env: []string{"EXPORT=/work/7"}}, []string{"names", "locks_restart"}, "rdma/4.2", "holder")
	client.Await("locked")
	d.scene("restart")
	client.Signal("go-on")
	client.Await("written")
	client.Signal("unlock")
	client.Succeed()
	d.scene("reload")
	d.scene("watched")
	d.scene("remove")
	for i, how := range []string{"rdma", "tcp"} {
		d.run(lab.Options{Limit: 20 * time.Minute, Address: 15, Env: []string{fmt.Sprintf("EXPORT=/work/%d", i)}}, "write_remount_compare", how)
	}
	d.stop()
}

// If the daemon needs longer to end than TimeoutStopSec=, because a file system does not answer,
// systemd waits for it: the daemon ends itself after drain_timeout.
func TestUnitStopsSlowly(t *testing.T) {
	if !everything() {
		t.Skip("make test-all runs it: TestUnit stops the unit as well")
	}
	t.Parallel()
	needsDaemon(t)
	u := installUnit(t, lab.Systemd254, build(t, "cmd/nfsrdmad"))
	u.dropIn("stop", "TimeoutStopSec=1s")
	u.machine.Run("sh", "-ec", `
		mknod /dev/loop-control c 10 237
		for n in $(seq 0 31); do mknod /dev/loop$n b 7 $n; done
		truncate -s 64M /run/image; mkfs.ext4 -q /run/image
		mkdir /srv/disk; mount -o loop /run/image /srv/disk`)
	u.machine.Write(unitConfig, "drain_timeout = \"5s\"\n"+exportOf("/srv/disk", "/disk"))
	u.machine.Run("systemctl", "restart", unitName)
	u.await("with an export on a disk")

	u.machine.Run("fsfreeze", "--freeze", "/srv/disk")
	thaw := sync.OnceFunc(func() { u.machine.Try("fsfreeze", "--unfreeze", "/srv/disk") })
	t.Cleanup(thaw)
	client := u.machine.Command("nfsrdmad", "bench", lab.Host+":/disk", "--workload", "write", "--duration", "1s")
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	defer client.Wait()
	defer client.Process.Kill()
	waits := func() string { return u.machine.Run("sh", "-c", "cat /proc/"+u.process+"/task/*/wchan") }
	for deadline := time.Now().Add(unitLimit); !strings.Contains(waits(), "percpu_rwsem_wait"); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no thread of the daemon waits for the disk: %s", waits())
		}
	}
	u.machine.Run("systemctl", "stop", "--no-block", unitName)
	u.awaitJournal("calls are still in progress")
	thaw()
	for deadline := time.Now().Add(unitLimit); u.show("ActiveState") == "deactivating" && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond)
	}
	if result := u.show("Result"); result != "success" {
		t.Errorf("the unit was stopped with the result %s", result)
	}
}

// noKeytab is what the daemon logs if an export accepts Kerberos and the keytab cannot be used.
const noKeytab = "clients cannot use Kerberos"

// reloaded changes the configuration while the unit runs. One new export is a file system that was
// mounted after the daemon's start. Another one accepts Kerberos, whose keytab only root can read.
func (u *unit) reloaded() {
	u.t.Helper()
	u.machine.Run("sh", "-ec", "mkdir /srv/late /srv/secret; mount -t tmpfs -o mode=755 late /srv/late")
	exports := exportOf(unitExport, "/data") + exportOf("/srv/late", "/late") +
		strings.Replace(exportOf("/srv/secret", "/secret"), "rw,", "rw,sec=krb5,", 1)
	u.machine.Run("rm", "-f", "/etc/krb5.keytab")
	u.configure(exports)
	u.reload("serving")
	u.awaitJournal(noKeytab)
	u.machine.Run("sh", "-ec", `umask 077
		printf '%s\n' 'addent -password -p nfs/server@KRB5.TEST -k 1 -e aes256-cts-hmac-sha1-96' secret 'write_kt /etc/krb5.keytab' | ktutil
		[ "$(stat -c '%U %a' /etc/krb5.keytab)" = "root 600" ]`)
	u.configure(exports + "\nno_such_key = true\n")
	u.reload("reload failed: the old configuration stays in force")
	u.awaitJournal("nfsrdmad: reload failed")
	u.configure(exports)
	u.reload("serving")
	if count := strings.Count(u.journal(), noKeytab); count != 1 {
		u.t.Errorf("the journal has %q %d times, and the keytab was missing only once", noKeytab, count)
	}
}

// work boots a client that works on both exports over each of hows, as root and as other users, and
// then holds a lock.
func (u *unit) work(hows ...string) *lab.Guest {
	u.t.Helper()
	var all strings.Builder
	for i, how := range hows {
		export := []string{"/late", "/data"}[i%2]
		for _, work := range []string{"names", "permissions"} {
			fmt.Fprintf(&all, "step '%s over %s'\n(\nEXPORT=%s; set -- %[2]s\n%[4]s\n) || fail '%[1]s over %[2]s'\n", work, how, export, script(u.t, work))
		}
		fmt.Fprintf(&all, "( EXPORT=%s; mount_over %s /mnt/n; find /mnt/n -mindepth 1 -delete; umount /mnt/n )\n", export, how)
	}
	all.WriteString("EXPORT=/data\n" + script(u.t, "locks_restart"))
	g := lab.Boot(u.t, u.network, lab.Options{Limit: 10 * time.Minute}, all.String(), hows[len(hows)-1], "holder")
	g.Await("locked")
	return g
}

// restarted ends the daemon in several ways. After each of them systemd has to start it again.
func (u *unit) restarted() {
	u.t.Helper()
	u.machine.Run("systemctl", "restart", unitName)
	u.await("after a restart")

	u.machine.Run("systemctl", "kill", "--signal=SEGV", "--kill-whom=main", unitName)
	u.await("after a crash")
	u.awaitJournal("SIGSEGV")

	u.dropIn("watchdog", "WatchdogSec=10s")
	u.machine.Run("systemctl", "restart", unitName)
	u.await("with a short time for the watchdog")
	u.machine.Run("systemctl", "kill", "--signal=STOP", "--kill-whom=main", unitName)
	u.await("after it hung")
	u.awaitJournal("Watchdog timeout")
	u.awaitJournal("SIGABRT")
	if count := u.show("NRestarts"); count == "0" {
		u.t.Error("systemd counts no restart of its own")
	}
}

// stopped stops the unit, lets the socket unit start it, and starts it with a wrong configuration.
func (u *unit) stopped() {
	u.t.Helper()
	u.machine.Run("systemctl", "stop", unitName)
	if result := u.show("Result"); result != "success" {
		u.t.Errorf("the unit was stopped with the result %s", result)
	}
	u.machine.Run("systemctl", "enable", "--now", "nfsrdmad.socket")
	if state := u.show("ActiveState"); state != "inactive" {
		u.t.Errorf("the unit is %s when only the socket was started", state)
	}
	u.machine.Run("nfsrdmad", "probe", lab.Host, "--transport", "tcp")
	u.await("after a connection to the socket")
	connect := u.machine.Command("bash", "-c", `touch /run/connecting
		until [ -e /run/enough ]; do : <>/dev/tcp/`+lab.Host+`/2049 || exit 1; sleep 0.02; done`)
	if err := connect.Start(); err != nil {
		u.t.Fatal(err)
	}
	u.machine.Run("sh", "-c", "until [ -e /run/connecting ]; do sleep 0.05; done")
	u.machine.Run("systemctl", "restart", unitName)
	u.await("after a restart with the socket")
	u.machine.Write("/run/enough", "")
	if err := connect.Wait(); err != nil {
		u.t.Error("while the unit was restarted with the socket, a connection was refused")
	}
	u.machine.Run("systemctl", "stop", "nfsrdmad.socket", unitName)

	u.configure("\nno_such_key = true\n")
	if out, err := u.machine.Try("systemctl", "start", unitName); err == nil {
		u.t.Errorf("the unit starts with a wrong configuration: %s", out)
	}
	for property, value := range map[string]string{"ActiveState": "failed", "Result": "exit-code", "ExecMainStatus": "2", "NRestarts": "0"} {
		if got := u.show(property); got != value {
			u.t.Errorf("with a wrong configuration %s is %s, not %s", property, got, value)
		}
	}
	u.awaitJournal("no_such_key")
}
