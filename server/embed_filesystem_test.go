package server_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/server"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// closings counts how often a file system is closed.
type closings struct {
	vfs.FileSystem
	n atomic.Int32
}

func (c *closings) Close() error {
	c.n.Add(1)
	return c.FileSystem.Close()
}

func (c *closings) Unwrap() vfs.FileSystem { return c.FileSystem }

// A file system of a program is served by NFSv3 and 4.2, over TCP and RDMA, and closed when Serve has ended.
func TestNewFileSystem(t *testing.T) {
	fs := &closings{FileSystem: memfs.New(memfs.Options{RootMode: 0o777})}
	l := tcpListener(t)
	ip := l.Addr().(*net.TCPAddr).AddrPort().Addr()
	s, err := server.NewFileSystem(l, fs, server.FileSystemOptions{
		Name: "/files", RDMA: []config.Listen{{Addr: netip.AddrPortFrom(ip, 0)}}, Squash: export.NoSquash,
	})
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, s)
	ctx := testContext(t)
	tcp := s.TCPAddrs()[0]
	targets := []client.Target{
		{Transport: client.TCP, Host: ip.String(), Port: int(tcp.Port()), Cred: client.Self()},
		{Transport: client.RDMA, Host: ip.String(), Port: int(s.RDMAAddrs()[0].Port()), Cred: client.Self()},
	}
	for i, target := range targets {
		name := []string{"over TCP", "over RDMA"}[i]
		write4(t, ctx, client.SessionConfig{Target: target}, name, "all is well")
		c, err := client.Dial(ctx, target)
		if err != nil {
			t.Fatal(err)
		}
		root, err := c.MountRoot(ctx, "/files", int(tcp.Port()))
		if err != nil {
			t.Fatal(err)
		}
		file, _, err := c.NFS3().Lookup(ctx, root, name)
		if err != nil {
			t.Fatal(err)
		}
		content := make([]byte, 32)
		n, _, err := c.NFS3().Read(ctx, file, 0, content)
		if err != nil || string(content[:n]) != "all is well" {
			t.Errorf("NFSv3 reads %q, %v of what NFSv4 wrote", content[:n], err)
		}
		c.Close()
	}
	stop()
	if n := fs.n.Load(); n != 1 {
		t.Errorf("the file system was closed %d times", n)
	}
}

// write4 makes a file in the directory /files by the newest minor version.
func write4(t *testing.T, ctx context.Context, cfg client.SessionConfig, name, content string) {
	t.Helper()
	s, err := client.DialSession(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	n := s.NFS4()
	dir, err := n.Walk(ctx, nil, "/files")
	if err != nil {
		t.Fatal(err)
	}
	file, err := n.Open(ctx, client.Open4{
		Dir: dir, Name: name, Owner: []byte("test"), Access: nfs4wire.Open4ShareAccessWrite,
		Create: &nfs4wire.Createhow4{Mode: nfs4wire.Guarded4, Createattrs: client.ModeAttribute(0o644)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Write(ctx, file.File, file.StateID, 0, []byte(content), nfs4wire.FileSync4); err != nil {
		t.Fatal(err)
	}
	if err := n.CloseFile(ctx, file.File, file.StateID); err != nil {
		t.Fatal(err)
	}
}

// The program in docs/embedding.md can be built, and serves its files.
func TestDocumentedFileSystem(t *testing.T) {
	program := buildProgram(t, codeBlocks(t, filepath.Join(root, "docs/embedding.md"), 1)[0])
	ip := ownLoopback()
	needRDMAPort(t, ip)
	at := servertest.FreePort(t, ip)
	p := servertest.StartProcess(t, exec.Command(program, at.String()))
	defer p.Kill()
	p.AwaitListener(netip.AddrPortFrom(ip, config.DefaultRDMAPort))
	write4(t, testContext(t), client.SessionConfig{
		Target: client.Target{Transport: client.RDMA, Host: ip.String(), Cred: client.Self()},
	}, "file", "all is well")
}

// Whatever NewFileSystem fails at, it closes the file system once and leaves the listener open.
func TestNewFileSystemFails(t *testing.T) {
	busy := tcpListener(t).Addr().(*net.TCPAddr).AddrPort()
	none := []config.Listen{{None: true}}
	for name, c := range map[string]struct {
		options server.FileSystemOptions
		says    string
	}{
		"options":         {server.FileSystemOptions{Name: "files/", RDMA: none}, `write "/files"`},
		"state directory": {server.FileSystemOptions{StateDir: "/dev/null/state", RDMA: none}, "/dev/null"},
		"versions":        {server.FileSystemOptions{Versions: []string{"5"}, RDMA: none}, "5"},
		"RDMA":            {server.FileSystemOptions{RDMA: []config.Listen{{Addr: busy}}}, "choose another port"},
	} {
		t.Run(name, func(t *testing.T) {
			fs := &closings{FileSystem: memfs.New(memfs.Options{})}
			l := tcpListener(t)
			_, err := server.NewFileSystem(l, fs, c.options)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error %v does not say %q", err, c.says)
			}
			if n := fs.n.Load(); n != 1 {
				t.Errorf("the file system was closed %d times", n)
			}
			if s, err := server.NewFileSystem(l, memfs.New(memfs.Options{}), server.FileSystemOptions{RDMA: none}); err != nil {
				t.Error("with the same listener:", err)
			} else {
				run(t, s)()
			}
		})
	}
}

// A slog.Handler gets the lines of the log, with their levels and fields.
func TestSlogLogger(t *testing.T) {
	var lines strings.Builder
	log := server.SlogLogger(slog.NewJSONHandler(&lines, &slog.HandlerOptions{Level: slog.LevelInfo}))
	l := tcpListener(t)
	s, err := server.NewFileSystem(l, memfs.New(memfs.Options{}), server.FileSystemOptions{
		Name: "/files", RDMA: []config.Listen{{None: true}}, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, s)()
	for text := range strings.Lines(lines.String()) {
		var line struct {
			Level, Msg string
			Exports    []string
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		if line.Msg == "serving" && line.Level == "INFO" && len(line.Exports) == 1 && line.Exports[0] == "/files" {
			return
		}
	}
	t.Error("no line says that /files is served:", lines.String())
}

// tcpListener listens on an address of this test.
func tcpListener(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(ownLoopback(), 0)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}
