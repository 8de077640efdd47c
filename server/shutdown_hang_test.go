package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/server"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest/stalled"
)

// hangs makes GETATTR calls that hang in an export. It returns when the daemon has received all
// of them.
func hangs(t *testing.T, d *daemon, m *stalled.FileSystem, transport string, h servertest.Handle, calls int) {
	t.Helper()
	c := d.dialBoth(t)[transport]
	if err := c.Null(testContext(t)); err != nil { // the first reply grants the credits
		t.Fatal(err)
	}
	ended := make(chan error, calls)
	for range calls {
		c.Start(wire.ProcGetattr, &wire.Getattr3Args{Object: wire.FileHandle3{Data: h}}, nil, func(x *rpc.Exchange) { ended <- x.Err })
	}
	// The daemon reads a connection's calls in order. So when this call is answered, the daemon
	// has read the calls before it.
	if err := c.Null(testContext(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range calls {
			select {
			case <-ended:
			case <-time.After(hang):
				t.Error("a call does not end")
				return
			}
		}
	})
}

// If a file system hangs, the daemon still ends in time. It logs the number of calls that it
// leaves behind in each export, and the unsynced data. Its addresses and its state directory are
// then free for the next daemon. Here the FUSE process has read the requests of the daemon's
// threads, so the kernel keeps the daemon's process as a zombie until they are answered.
func TestEndsWhileAFileSystemHangs(t *testing.T) {
	for _, transport := range []string{"tcp", "rdma"} {
		t.Run(transport, func(t *testing.T) {
			m := stalled.Mount(t)
			defer m.LetGo()
			works := t.TempDir()
			d := startShort(t, t.TempDir(), map[string]string{"/hangs": m.Dir, "/works": works})
			ctx := testContext(t)
			c := d.dialBoth(t)[transport]
			dir, err := c.Mount(ctx, "/hangs")
			if err != nil {
				t.Fatal(err)
			}
			h, err := c.Create(ctx, dir, "file", 0o600)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Write(ctx, h, 0, []byte("not committed"), wire.Unstable); err != nil {
				t.Fatal(err)
			}
			m.Stall()
			const calls = 5
			hangs(t, d, m, transport, h, calls)
			m.AwaitHanging(1)
			d.Signal(syscall.SIGTERM)
			d.AwaitLine("some steps of the shutdown did not finish")
			says(t, d.Process, "calls are still in progress", `"exports": ["/hangs"]`, `"running": 5`, `"oldest"`)
			says(t, d.Process, "some steps of the shutdown did not finish", "5 calls of export /hangs, the oldest for")
			says(t, d.Process, "written and not committed", `"export": "/hangs"`, `"files": 1`)
			if strings.Contains(d.Output(), "/works") && strings.Contains(d.Output(), "closing export /works") {
				t.Errorf("it left an export that does not hang:\n%s", d.Output())
			}
			next := d.again(t, map[string]string{"/works": works})
			other := next.dialBoth(t)[transport]
			if _, err := other.Mount(ctx, "/works"); err != nil {
				t.Error(err)
			}
			m.LetGo()
			if status := d.Wait(); status != unfinished {
				t.Errorf("exit status %d, want %d:\n%s", status, unfinished, d.Output())
			}
			ends(t, next.Process, syscall.SIGTERM, inOrder)
		})
	}
}

// If the FUSE process has not read the requests of the daemon's threads, the daemon's process
// itself ends in time.
func TestProcessIsGoneWhileAFileSystemIsFrozen(t *testing.T) {
	m := stalled.Mount(t)
	d := startShort(t, t.TempDir(), map[string]string{"/hangs": m.Dir})
	h, err := d.dialBoth(t)["tcp"].Mount(testContext(t), "/hangs")
	if err != nil {
		t.Fatal(err)
	}
	m.Freeze()
	defer m.Thaw()
	hangs(t, d, m, "tcp", h, 78)
	awaitThreads(t, d.PID(), "fuse", 72) // what an address may have alone: rpc.Config.LaneWorkers
	ends(t, d.Process, syscall.SIGTERM, unfinished)
	says(t, d.Process, "calls are still in progress", `"running": 72`, `"waiting": 6`)
}

// awaitThreads waits until n threads of a process wait in kernel functions whose names begin with
// prefix.
func awaitThreads(t *testing.T, pid int, prefix string, n int) {
	t.Helper()
	await(t, testContext(t), fmt.Sprintf("%d threads wait in %s", n, prefix), func() bool {
		found, waiting := 0, 0
		for _, f := range must(filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stack", pid))) {
			if b, err := os.ReadFile(f); err == nil {
				found++
				if strings.Contains(string(b), "] "+prefix) {
					waiting++
				}
			}
		}
		return waiting >= n || found == 0
	})
}

// If the disk of the state directory hangs, the daemon still ends in time. It logs that it left
// the state directory behind.
func TestEndsWhileTheStateDirectoryHangs(t *testing.T) {
	m := stalled.Mount(t)
	defer m.LetGo()
	d := startShort(t, filepath.Join(m.Dir, "state"), map[string]string{"/": t.TempDir()})
	m.Stall()
	d.Signal(syscall.SIGTERM)
	d.AwaitLine("some steps of the shutdown did not finish")
	says(t, d.Process, "some steps of the shutdown did not finish", "state directory")
	m.LetGo()
	if status := d.Wait(); status != unfinished {
		t.Errorf("exit status %d, want %d:\n%s", status, unfinished, d.Output())
	}
}

// If the disk with the index of handles hangs, the daemon still ends in time. A daemon without
// CAP_DAC_READ_SEARCH keeps such an index. The test uses one processor, because a page fault that
// waits for the disk would then stop the whole daemon.
func TestEndsWhileTheIndexHangs(t *testing.T) {
	needSetpriv(t)
	m := stalled.Mount(t)
	defer m.LetGo()
	config := writeFile(t, "nfsrdmad.toml", fmt.Sprintf("drain_timeout = %q\nrpcbind = false\n", shortDrain))
	d := &daemon{tcp: servertest.FreePort(t, ownLoopback())}
	d.Process = startAs(t, []string{"env", "GOMAXPROCS=1", "setpriv", "--bounding-set", "-dac_read_search"}, "--config", config,
		"--state-dir", filepath.Join(m.Dir, "state"), "--tcp", d.tcp.String(), "--rdma", "none", "--export", t.TempDir()+":/index,insecure,no_root_squash")
	d.AwaitLine("serving")
	ctx := testContext(t)
	c, err := servertest.DialTCP(ctx, d.tcp)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	dir, err := c.Mount(ctx, "/index")
	if err != nil {
		t.Fatal(err)
	}
	m.Stall()
	if _, err := c.Create(ctx, dir, "file", 0o600); err != nil {
		t.Fatal(err)
	}
	m.AwaitHanging(1) // the index writes the name to the disk
	d.Signal(syscall.SIGTERM)
	d.AwaitLine("some steps of the shutdown did not finish")
	says(t, d.Process, "some steps of the shutdown did not finish", "closing export /index")
	m.LetGo()
	if status := d.Wait(); status != unfinished {
		t.Errorf("exit status %d, want %d:\n%s", status, unfinished, d.Output())
	}
}

// stallable is a file system whose calls can be made to hang.
type stallable interface {
	vfs.FileSystem
	Stall(ms ...memfs.Method) (release func())
	AwaitStalled(n int)
}

// A stuckServer is a server in the test's process. A call hangs in one of its exports.
type stuckServer struct {
	*server.Server
	t       *testing.T
	stop    context.CancelFunc
	served  chan error
	ended   chan error // receives the error of the call when it ends
	release func()
}

// callThatHangs serves fs under a name, together with other exports, and makes a GETATTR that
// hangs there.
func callThatHangs(t *testing.T, name string, fs stallable, others ...*export.Export) *stuckServer {
	t.Helper()
	listen := []config.Listen{{Addr: netip.AddrPortFrom(ownLoopback(), 0)}}
	s, err := server.NewOver(&config.Config{TCP: listen, RDMA: listen, DrainTimeout: config.Duration(shortDrain / 5)},
		append([]*export.Export{{Name: name, FS: fs, Options: export.Options{Squash: export.NoSquash}}}, others...)...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(testContext(t))
	h := &stuckServer{Server: s, t: t, stop: stop, served: make(chan error, 1), ended: make(chan error, 1)}
	go func() { h.served <- s.Serve(ctx) }()
	c, err := servertest.DialTCP(ctx, s.TCPAddrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	file, err := c.Mount(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	h.release = fs.Stall()
	t.Cleanup(h.release)
	c.Start(wire.ProcGetattr, &wire.Getattr3Args{Object: wire.FileHandle3{Data: file}}, nil, func(x *rpc.Exchange) { h.ended <- x.Err })
	fs.AwaitStalled(1)
	return h
}

// leaves ends the server, and checks that the error of Serve names the export in which the call
// hangs.
func (h *stuckServer) leaves(name string) {
	h.t.Helper()
	h.stop()
	var err error
	select {
	case err = <-h.served:
	case <-time.After(hang):
		h.t.Fatal("it does not return")
	}
	var left *server.Unfinished
	if !errors.As(err, &left) || len(left.Left) != 1 || !strings.Contains(left.Left[0], "1 calls of export "+name) {
		h.t.Errorf("it returned %v", err)
	}
}

// Serve of an embedded server returns in time although calls hang. Its error lists the calls that
// are left behind.
func TestServeReturnsWhileCallsHang(t *testing.T) {
	one, two := memfs.New(memfs.Options{RootMode: 0o777}), memfs.New(memfs.Options{RootMode: 0o777})
	h := callThatHangs(t, "/one", one, &export.Export{Name: "/two", FS: two, Options: export.Options{Squash: export.NoSquash}})
	h.leaves("/one")
	h.release()
	if err := <-h.ended; err == nil {
		t.Error("a call was answered after the end")
	}
	await(t, testContext(t), "the call ends", func() bool { return h.Calls().Running == 0 })
}
