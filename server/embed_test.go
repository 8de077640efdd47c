package server_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	gobilly "github.com/go-git/go-billy/v5"
	billymem "github.com/go-git/go-billy/v5/memfs"
	nfs "github.com/willscott/go-nfs"
	"github.com/willscott/go-nfs/helpers"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/nfsrdmad/nfsrdmad/server"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// codeBlocks returns the n blocks of Go in a document.
func codeBlocks(t *testing.T, document string, n int) []string {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, rest := range strings.Split(string(text), "```go\n")[1:] {
		code, _, closed := strings.Cut(rest, "```\n")
		if !closed {
			t.Fatalf("%s: a block does not end", document)
		}
		blocks = append(blocks, code)
	}
	if len(blocks) != n {
		t.Fatalf("%s has %d blocks of Go, want %d", document, len(blocks), n)
	}
	return blocks
}

// buildProgram builds a program of one file within this module.
func buildProgram(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "example")
	if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", program, source)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// The program in docs/go-nfs.md can be built, and serves both transports. Each transport shows
// the data that was written over the other (V1-103 in docs/conformance-rpcrdma-v1.md).
func TestDocumentedExample(t *testing.T) {
	blocks := codeBlocks(t, filepath.Join(root, "docs/go-nfs.md"), 2)
	program := buildProgram(t, blocks[0])
	// The second block is a part of a function.
	buildProgram(t, `package main

import (
	"context"
	"net"
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/server"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	nfs "github.com/willscott/go-nfs"
)

func serve(ctx context.Context, listener net.Listener, handler nfs.Handler) error {
`+blocks[1]+`}

func main() { _ = serve(context.Background(), nil, nil) }
`)
	served := t.TempDir()
	ip := ownLoopback()
	needRDMAPort(t, ip)
	overTCPAt := servertest.FreePort(t, ip)
	p := servertest.StartProcess(t, exec.Command(program, overTCPAt.String(), served))
	defer p.Kill()
	p.AwaitListener(netip.AddrPortFrom(ip, config.DefaultRDMAPort))

	ctx := testContext(t)
	overTCP, err := servertest.DialTCP(ctx, overTCPAt)
	if err != nil {
		t.Fatal(err)
	}
	defer overTCP.Close()
	overRDMA, err := servertest.DialRDMA(ctx, netip.AddrPortFrom(ip, config.DefaultRDMAPort))
	if err != nil {
		t.Fatal(err)
	}
	defer overRDMA.Close()
	writeHereReadThere(t, overRDMA, overTCP)
	writeHereReadThere(t, overTCP, overRDMA)
	if entries, err := os.ReadDir(served); err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v, %v", entries, err)
	}
}

// writeHereReadThere writes a file through one client and reads it through another.
func writeHereReadThere(t *testing.T, here, there *servertest.Client) {
	t.Helper()
	ctx := testContext(t)
	dir, err := here.Mount(ctx, "/")
	if err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat([]byte("nfsrdmad"), 20_000)
	rand.Shuffle(len(data), func(i, k int) { data[i], data[k] = data[k], data[i] })
	h, err := here.Create(ctx, dir, "file", 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := here.Write(ctx, h, 0, data, wire.FileSync); n != len(data) || err != nil {
		t.Fatalf("%d of %d bytes written: %v", n, len(data), err)
	}
	dir, err = there.Mount(ctx, "/")
	if err != nil {
		t.Fatal(err)
	}
	if h, err = there.Lookup(ctx, dir, "file"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(data))
	if n, err := there.Read(ctx, h, 0, got); n != len(data) || err != nil || !bytes.Equal(got, data) {
		t.Fatalf("read %d of %d bytes, as written: %v; %v", n, len(data), bytes.Equal(got, data), err)
	}
}

func memoryHandler() nfs.Handler {
	return helpers.NewCachingHandler(helpers.NewNullAuthHandler(billymem.New()), 1024)
}

// The close of the listener ends ServeHandler, as it ends nfs.Serve.
func TestServeHandlerEndsWithItsListener(t *testing.T) {
	ip := ownLoopback()
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, 0)))
	if err != nil {
		t.Fatal(err)
	}
	needRDMAPort(t, ip)
	ended := make(chan error, 1)
	go func() { ended <- server.ServeHandler(l, memoryHandler()) }()
	ctx := testContext(t)
	c, err := servertest.DialTCP(ctx, l.Addr().(*net.TCPAddr).AddrPort())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Null(ctx); err != nil {
		t.Fatal(err)
	}
	l.Close()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-ctx.Done():
		t.Fatal("it goes on")
	}
}

// explosive is a file system that panics when a client looks up one name.
type explosive struct{ gobilly.Filesystem }

func (e explosive) Lstat(name string) (os.FileInfo, error) {
	if strings.HasSuffix(name, "boom") {
		panic("boom")
	}
	return e.Filesystem.Lstat(name)
}

// A Handler's panic ends one call, and the stack is logged. All other calls are served.
func TestHandlerPanics(t *testing.T) {
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(ownLoopback(), 0)))
	if err != nil {
		t.Fatal(err)
	}
	core, logged := observer.New(zap.WarnLevel)
	s, err := server.NewHandler(l, helpers.NewNullAuthHandler(explosive{billymem.New()}),
		server.HandlerOptions{RDMA: []config.Listen{{None: true}}, Log: zap.New(core)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(testContext(t))
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	c, err := servertest.DialTCP(ctx, l.Addr().(*net.TCPAddr).AddrPort())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	dir, err := c.Mount(ctx, "/")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Lookup(ctx, dir, "boom"); err == nil || is3(err, wire.NFS3ErrNoEnt) {
		t.Errorf("LOOKUP of what panics: %v", err)
	}
	if _, err := c.Create(ctx, dir, "file", 0o644); err != nil {
		t.Errorf("CREATE after a panic: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := logged.FilterMessageSnippet("a call ended in a fault of the server").Len(); n != 1 {
		t.Errorf("%d lines about a panic: %v", n, logged.All())
	}
}

// hangingMount is a Handler whose Mount calls arrived, and returns only when free is closed.
type hangingMount struct {
	nfs.Handler
	arrived func()
	free    chan struct{}
}

func (h hangingMount) Mount(ctx context.Context, conn net.Conn, req nfs.MountRequest) (nfs.MountStatus, gobilly.Filesystem, []nfs.AuthFlavor) {
	h.arrived()
	<-h.free
	return h.Handler.Mount(ctx, conn, req)
}

func TestHandlerOptions(t *testing.T) {
	ip := ownLoopback()
	listen := func(t *testing.T) net.Listener {
		l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, 0)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	t.Run("a busy RDMA port is named, and the listener left alone", func(t *testing.T) {
		l := listen(t)
		busy := l.Addr().(*net.TCPAddr).AddrPort()
		_, err := server.NewHandler(l, memoryHandler(), server.HandlerOptions{RDMA: []config.Listen{{Addr: busy}}})
		if err == nil || !strings.Contains(err.Error(), busy.String()) || !strings.Contains(err.Error(), "choose another port") {
			t.Fatal(err)
		}
		go net.Dial("tcp", busy.String())
		if c, err := l.Accept(); err != nil {
			t.Error("the listener was closed:", err)
		} else {
			c.Close()
		}
	})
	t.Run("relative name", func(t *testing.T) {
		_, err := server.NewHandler(listen(t), memoryHandler(), server.HandlerOptions{Name: "data/"})
		if err == nil || !strings.Contains(err.Error(), `write "/data"`) {
			t.Fatal(err)
		}
	})
	t.Run("a Mount that does not return", func(t *testing.T) {
		l := listen(t)
		ctx, cancel := context.WithCancel(testContext(t))
		mount := hangingMount{memoryHandler(), cancel, make(chan struct{})}
		defer close(mount.free)
		_, err := server.NewHandlerContext(ctx, l, mount, server.HandlerOptions{RDMA: []config.Listen{{None: true}}})
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		s, err := server.NewHandler(l, memoryHandler(), server.HandlerOptions{RDMA: []config.Listen{{None: true}}})
		if err != nil {
			t.Fatal("a second attempt:", err)
		}
		run(t, s)()
	})
	t.Run("more memory than there is", func(t *testing.T) {
		_, err := server.NewHandler(listen(t), memoryHandler(), server.HandlerOptions{Memory: config.Memory{Ceiling: 1 << 40}})
		if err == nil || !strings.Contains(err.Error(), "lower them") {
			t.Fatal(err)
		}
	})
	t.Run("name, clients, no RDMA", func(t *testing.T) {
		s, err := server.NewHandler(listen(t), memoryHandler(), server.HandlerOptions{
			Name: "/data", RDMA: []config.Listen{{None: true}}, Clients: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
		})
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, s)
		if len(s.RDMAAddrs()) != 0 {
			t.Error("RDMA is served on", s.RDMAAddrs())
		}
		ctx := testContext(t)
		c, err := servertest.DialTCP(ctx, s.TCPAddrs()[0])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var status *servertest.MountError
		if _, err := c.Mount(ctx, "/data"); !errors.As(err, &status) {
			t.Errorf("mount by a client that is not served: %v", err)
		}
		stop()
	})
	t.Run("handles outlive the process that has a state directory", func(t *testing.T) {
		dir, handler := t.TempDir(), memoryHandler()
		var h servertest.Handle
		for round := range 2 {
			s, err := server.NewHandler(listen(t), handler, server.HandlerOptions{RDMA: []config.Listen{{None: true}}, StateDir: dir})
			if err != nil {
				t.Fatal(err)
			}
			stop := run(t, s)
			ctx := testContext(t)
			c, err := servertest.DialTCP(ctx, s.TCPAddrs()[0])
			if err != nil {
				t.Fatal(err)
			}
			if round == 0 {
				if h, err = c.Mount(ctx, "/"); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := c.GetAttr(ctx, h); err != nil {
				t.Errorf("round %d: %v", round, err)
			}
			c.Close()
			stop()
		}
	})
}
