//go:build interop

package interop

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fileSize is the size, in bytes, of the file that clients copy to the server and back.
const fileSize = 100 << 20

// Paths of programs that TestMain builds for all tests.
var daemon, goNFSClient string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "nfsrdmad-interop-")
	if err != nil {
		panic(err)
	}
	daemon, goNFSClient = filepath.Join(dir, "nfsrdmad"), filepath.Join(dir, "gonfsclient")
	for out, pkg := range map[string]string{daemon: "../../cmd/nfsrdmad", goNFSClient: "./gonfsclient"} {
		c := exec.Command("go", "build", "-tags", "interop", "-o", out, pkg)
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		if err := c.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "building", pkg, err)
			os.Exit(1)
		}
	}
	status := m.Run()
	os.RemoveAll(dir)
	os.Exit(status)
}

// export creates a directory and returns the flag value that exports it.
func (n *namespace) export() (spec string) {
	dir := filepath.Join(n.dir, "export")
	if err := os.Mkdir(dir, 0o777); err != nil {
		n.t.Fatal(err)
	}
	return dir + ":/x,rw,no_root_squash,insecure"
}

func (n *namespace) serve(tcp int) {
	n.start(tcp, daemon, "serve", "--state-dir", filepath.Join(n.dir, "state"), "--export", n.export(),
		"--tcp", fmt.Sprintf("127.0.0.1:%d", tcp), "--rdma", "127.0.0.1:20049")
}

// ways are the ways in which a TCP client that asks the rpcbind on port 111 can reach the daemon.
var ways = map[string]func(t *testing.T) *namespace{
	"TCP with rpcbind": func(t *testing.T) *namespace {
		n := newNamespace(t)
		// rpcbind lets any program register a port (-i), because the daemon cannot use rpcbind's
		// socket in /run.
		n.start(111, "rpcbind", "-f", "-i")
		n.serve(2049)
		return n
	},
	"RDMA by the relay": func(t *testing.T) *namespace {
		n := newNamespace(t)
		n.serve(3049)
		n.start(2049, daemon, "relay", "--listen", "127.0.0.1:2049", "--rpcbind-listen", "127.0.0.1:111",
			"--mount-port", "3049", "--verbose", "127.0.0.1")
		return n
	},
}

func overAllWays(t *testing.T, f func(t *testing.T, n *namespace)) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) { f(t, way(t)) })
	}
}

// bigFile creates a file of fileSize random bytes.
func (n *namespace) bigFile() string {
	b := make([]byte, fileSize)
	rand.Read(b)
	name := filepath.Join(n.dir, "big")
	if err := os.WriteFile(name, b, 0o644); err != nil {
		n.t.Fatal(err)
	}
	return name
}

// The tools of libnfs work with the server: nfs-cp copies a file to it, nfs-cat and nfs-cp copy
// it back, and nfs-ls lists it.
func TestLibnfs(t *testing.T) {
	for _, tool := range []string{"nfs-ls", "nfs-cp", "nfs-cat"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%v: Debian's libnfs-utils has it", err)
		}
	}
	overAllWays(t, func(t *testing.T, n *namespace) {
		big := n.bigFile()
		for _, version := range []string{"3", "4"} {
			url := func(name string) string { return "nfs://127.0.0.1/x" + name + "?version=" + version }
			if version == "4" {
				// With NFSv4, libnfs 4.0 cannot write more than a few KiB in one WRITE.
				small := filepath.Join(n.dir, "small")
				if err := os.WriteFile(small, []byte("a small file"), 0o644); err != nil {
					n.t.Fatal(err)
				}
				n.run("nfs-cp", small, url("/small"))
				n.run("cmp", small, filepath.Join(n.dir, "export", "small"))
				n.run("cp", big, filepath.Join(n.dir, "export", "copy"))
			} else {
				n.run("nfs-cp", big, url("/copy"))
			}
			if out := n.run("nfs-ls", url("")); !strings.Contains(out, "copy") || !strings.Contains(out, fmt.Sprint(fileSize)) {
				t.Errorf("nfs-ls lists over version %s\n%s", version, out)
			}
			back := filepath.Join(n.dir, "back"+version)
			n.run("nfs-cp", url("/copy"), back)
			n.run("cmp", big, back)
			n.run("sh", "-c", `nfs-cat "$1" | cmp - "$2"`, "sh", url("/copy"), big)
			n.run("cmp", big, filepath.Join(n.dir, "export", "copy"))
			n.run("rm", filepath.Join(n.dir, "export", "copy"))
		}
	})
}

func TestGoNFSClient(t *testing.T) {
	overAllWays(t, func(t *testing.T, n *namespace) {
		n.run(goNFSClient, "127.0.0.1", "/x", n.bigFile())
	})
}

// The tools probe and bench get the same results over both transports.
func TestProbeAndBench(t *testing.T) {
	n := newNamespace(t)
	n.start(111, "rpcbind", "-f", "-i")
	n.serve(2049)
	out := n.run(daemon, "probe", "127.0.0.1", "--transport", "both")
	for _, want := range []string{"tcp 127.0.0.1:2049", "rdma 127.0.0.1:20049", "MPA", "credits granted", "/x"} {
		if !strings.Contains(out, want) {
			t.Errorf("probe does not say %q:\n%s", want, out)
		}
	}
	for _, transport := range []string{"tcp", "rdma"} {
		out := n.run(daemon, "bench", "127.0.0.1:/x", "--transport", transport, "--workload", "read", "--file-size", "16M", "--ops", "100")
		if !strings.Contains(out, "100 in") {
			t.Errorf("bench over %s says\n%s", transport, out)
		}
	}
}
