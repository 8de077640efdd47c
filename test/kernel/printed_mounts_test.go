//go:build kernel

package kernel

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// The commands that the tool probe prints in a client's guest, and those that the daemon prints for --show-mounts, mount
// the exports as they are printed: for each version of NFS, over RDMA and TCP, by IPv4 and IPv6, and for a name that a
// shell would take apart.
func TestPrintedMountCommands(t *testing.T) {
	needsDaemon(t)
	t.Parallel()
	const six = "fd00::2" // the daemon's IPv6 address
	n := lab.NewNetwork(t)
	if out, err := n.Command("ip", "addr", "add", six+"/64", "dev", "br0", "nodad").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	base := t.TempDir()
	exports := []string{}
	for _, name := range []string{"it's $HOME", "work"} {
		folder := filepath.Join(base, name)
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "file"), []byte(name+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		exports = append(exports, "--export", folder+":/"+name+",rw,no_root_squash")
	}
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	served := []string{"3", "4.0", "4.1", "4.2"}
	g := lab.Boot(t, n, lab.Options{Limit: 5 * time.Minute, Env: []string{"NFSRDMAD=" + build(t, "cmd/nfsrdmad")}},
		script(t, "printed_mounts"), append([]string{six}, served...)...)
	// The last commands that the daemon prints are those over TCP, and the last address is that of IPv6.
	last := regexp.MustCompile(`(?s)# Over RDMA.*# Over TCP.*\nmount [^\n]*\[` + six + `\]:[^\n]* /mnt\n`)
	for _, version := range served {
		versions := fmt.Sprintf("[%q]", version)
		if version == "4.2" { // the daemon's default
			versions = `["3", "4.0", "4.1", "4.2"]`
		}
		file := filepath.Join(base, version+".toml")
		if err := os.WriteFile(file, []byte("[nfs]\nversions = "+versions+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		// With a state directory of its own, the daemon has no grace period.
		command := lab.DaemonCommand(daemon(t), filepath.Join(base, "state-"+version), append(exports, "--config", file, "--show-mounts")...)
		for i, word := range command { // on IPv6 as well
			command[i] = strings.TrimPrefix(word, lab.Host)
		}
		d := lab.StartServer(t, n, "nfsrdmad", command, lab.PortRDMA, lab.PortTCP)
		if !await.Within(await.WorkloadLimit, func() bool { return last.MatchString(d.Log()) }) {
			t.Fatalf("with version %s, the daemon did not print its mount commands", version)
		}
		var printed strings.Builder
		for line := range strings.Lines(d.Log()) {
			// A command with a loopback address is for a program on the daemon's machine.
			if strings.HasPrefix(line, "mount ") && !strings.Contains(line, "127.0.0.1:") && !strings.Contains(line, "[::1]:") {
				printed.WriteString(line)
			}
		}
		if err := os.WriteFile(g.Shared("printed."+version), []byte(printed.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		g.Signal(version)
		g.Await("mounted-" + version)
		d.Stop()
	}
	t.Log(lastLine(g.Succeed()))
}
