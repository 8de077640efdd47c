package server_test

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/server/servertest"
)

// withSockets starts the daemon in the way in which systemd starts a service with sockets.
func withSockets(t *testing.T, names string, sockets []*os.File, args ...string) *servertest.Process {
	t.Helper()
	cmd := exec.Command("sh", append([]string{"-c", `LISTEN_PID=$$ exec "$0" "$@"`, binary(t), "serve", "--rdma", "none"}, args...)...)
	cmd.Env = append(os.Environ(), "LISTEN_FDS="+strconv.Itoa(len(sockets)), "LISTEN_FDNAMES="+names)
	cmd.ExtraFiles = sockets
	return servertest.StartProcess(t, cmd)
}

// socketOf returns the descriptor of a socket.
func socketOf(t *testing.T, s interface{ File() (*os.File, error) }) *os.File {
	t.Helper()
	f, err := s.File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// listening returns a TCP listener as systemd would open it, and its address.
func listening(t *testing.T) (*os.File, netip.AddrPort) {
	t.Helper()
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(ownLoopback(), 0)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return socketOf(t, l), l.Addr().(*net.TCPAddr).AddrPort()
}

// The next daemon answers a client that connected while no daemon ran, because systemd's socket
// keeps listening.
func TestClientsWaitInTheSocketOfSystemd(t *testing.T) {
	socket, at := listening(t)
	state, export := t.TempDir(), t.TempDir()
	for range 2 {
		c, err := net.Dial("tcp", at.String())
		if err != nil {
			t.Fatal(err)
		}
		p := withSockets(t, "tcp", []*os.File{socket}, "--tcp", at.String(), "--state-dir", state, "--export", export+":/,insecure")
		// A NULL call of NFS version 3, as one record.
		call := []byte{0x80, 0, 0, 40, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0x86, 0xa3, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
		if _, err := c.Write(call); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 64)); err != nil {
			t.Errorf("the client that had connected before the daemon ran: %v\n%s", err, p.Output())
		}
		c.Close()
		p.Signal(syscall.SIGTERM)
		if status := p.Wait(); status != 0 {
			t.Errorf("exit status %d:\n%s", status, p.Output())
		}
	}
}

// The daemon refuses a socket that it cannot use for TCP. Its message names the change that the
// unit needs.
func TestSocketOfSystemdThatIsRefused(t *testing.T) {
	tcp, at := listening(t)
	other, elsewhere := listening(t)
	local, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	for _, c := range []struct {
		what, names string
		sockets     []*os.File
		tcp         string
		says        string
		too         []string
	}{
		{"the unit's own name", "nfsrdmad.socket", []*os.File{tcp}, at.String(), "systemd's socket nfsrdmad.socket: ", []string{"FileDescriptorName=tcp"}},
		{"no name", "", []*os.File{tcp}, at.String(), "systemd's socket ", []string{"FileDescriptorName=tcp"}},
		{"a name that TCP does not have", "tcp:rdma", []*os.File{tcp, other}, at.String(), "systemd's socket rdma: ", []string{"FileDescriptorName=tcp"}},
		{"a local socket", "tcp", []*os.File{socketOf(t, local.(*net.UnixListener))}, at.String(), "no TCP socket", []string{"ListenStream="}},
		{"a socket without connections", "tcp", []*os.File{socketOf(t, udp.(*net.UDPConn))}, at.String(), "does not listen", []string{"Accept=no"}},
		{"another address", "tcp", []*os.File{tcp}, elsewhere.String(), at.String(), []string{elsewhere.String(), "ListenStream= and tcp"}},
		{"one address of two", "tcp:tcp", []*os.File{tcp, other}, at.String(), elsewhere.String(), []string{"ListenStream= and tcp"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			p := withSockets(t, c.names, c.sockets, "--tcp", c.tcp, "--state-dir", t.TempDir(), "--export", t.TempDir())
			if status := p.Wait(); status != 2 {
				t.Errorf("exit status %d", status)
			}
			says(t, p, c.says, c.too...)
		})
	}
}

// The daemon does not take sockets that systemd passed to another process, such as the shell that
// starts the daemon.
func TestSocketsOfAnotherProcessAreLeftAlone(t *testing.T) {
	cmd := exec.Command(binary(t), "serve", "--rdma", "none", "--tcp", netip.AddrPortFrom(ownLoopback(), 0).String(), "--state-dir", t.TempDir(), "--export", t.TempDir())
	cmd.Env = append(os.Environ(), "LISTEN_PID=1", "LISTEN_FDS=1", "LISTEN_FDNAMES=tcp")
	p := servertest.StartProcess(t, cmd)
	p.AwaitLine("serving")
	p.Signal(syscall.SIGTERM)
	if status := p.Wait(); status != 0 {
		t.Errorf("exit status %d:\n%s", status, p.Output())
	}
}
