package server_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/server/servertest"
)

// doctor checks the needs of a server with the same flags. Its exit status is 1 if
// something is missing that every server needs.
func TestDoctor(t *testing.T) {
	ip := ownLoopback()
	busy, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, 0)))
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	taken, free := busy.Addr().String(), servertest.FreePort(t, ip).String()
	readable, open, within := filepath.Join(t.TempDir(), "state"), t.TempDir(), t.TempDir()
	if err := errors.Join(os.Chmod(open, 0o777), os.Mkdir(readable, 0o700), os.WriteFile(filepath.Join(readable, "handle.key"), make([]byte, 32), 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		args   []string
		status int
		no     []string // in lines with the mark "no"
	}{
		{"all is there", []string{"--tcp", free, "--rdma", "none"}, 0, nil},
		{"the port of TCP is taken", []string{"--tcp", taken, "--rdma", "none"}, 1, []string{"(TCP)", "in use", "--tcp"}},
		{"the port of RDMA is taken", []string{"--tcp", free, "--rdma", taken}, 1, []string{"(software RDMA)", "in use", "--rdma"}},
		{"an address of another machine", []string{"--tcp", "192.0.2.1:2049", "--rdma", "none"}, 1, []string{"(TCP)", "ip address"}},
		{"a state directory that cannot be made", []string{"--tcp", free, "--rdma", "none", "--state-dir", "/proc/state"}, 1, []string{"state directory", "/proc", "cannot be written", "--state-dir"}},
		{"a state directory that all may write", []string{"--tcp", free, "--rdma", "none", "--state-dir", open}, 1, []string{"state directory", open, "chmod go-w"}},
		{"a key that all may read", []string{"--tcp", free, "--rdma", "none", "--state-dir", readable}, 1, []string{"state directory", "handle.key", "0644"}},
		{"a state directory within an export", []string{"--tcp", free, "--rdma", "none", "--export", within, "--state-dir", within + "/state"}, 1, []string{"state directory", "lies within the export"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := c.args
			if !slices.Contains(args, "--state-dir") {
				args = append([]string{"--state-dir", filepath.Join(t.TempDir(), "new")}, args...)
			}
			p := nfsrdmad(t, append([]string{"doctor"}, args...)...)
			if status := p.Wait(); status != c.status {
				t.Errorf("exit status %d, want %d:\n%s", status, c.status, p.Output())
			}
			for _, what := range []string{"kernel", "file handles", "acting as the caller", "links to files of others", "port ", "state directory", "rpcbind", "RDMA devices", "siw"} {
				if !strings.Contains(p.Output(), what) {
					t.Errorf("it does not speak of %q:\n%s", what, p.Output())
				}
			}
			if c.no != nil {
				says(t, p, "no       ", c.no...)
			}
			if _, err := os.Stat(within + "/state"); err == nil {
				t.Error("it made the state directory")
			}
		})
	}
	p := nfsrdmad(t, "doctor", "--tcp", "none", "--rdma", "none")
	if status := p.Wait(); status != 2 || !strings.Contains(p.Output(), "nothing to listen on") {
		t.Errorf("exit status %d:\n%s", status, p.Output())
	}
}
