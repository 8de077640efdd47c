//go:build interop

package interop

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// One daemon serves 1,000 idle RDMA connections beside 100 clients that connect, write, read,
// compare and disconnect several times. At the end it still serves the idle connections. When all
// have disconnected, it has no open connection.
func TestManyConnectionsToOneDaemon(t *testing.T) {
	const idle, busy, visits, size = 1000, 100, 3, 200_000
	addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, byte(1 + rand.IntN(250)), byte(rand.IntN(250)), byte(2 + rand.IntN(250))}), config.DefaultRDMAPort)
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "export"), 0o777); err != nil {
		t.Fatal(err)
	}
	p := servertest.StartProcess(t, exec.Command(daemon, "serve", "--state-dir", filepath.Join(dir, "state"),
		"--export", filepath.Join(dir, "export")+":/x,rw,no_root_squash,insecure,async", "--rdma", addr.String(), "--tcp", netip.AddrPortFrom(addr.Addr(), config.DefaultTCPPort).String()))
	p.AwaitLine("serving")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	open := func() int {
		all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID()))
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	dial := func() *servertest.Client {
		c, err := servertest.DialRDMA(ctx, addr)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := dial()
	root, err := first.Mount(ctx, "/x")
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	before := open()
	quiet := make([]*servertest.Client, idle)
	for i := range quiet {
		quiet[i] = dial()
		if _, err := quiet[i].GetAttr(ctx, root); err != nil {
			t.Fatal(err)
		}
	}
	visit := func(i, round int) error {
		c, err := servertest.DialRDMA(ctx, addr)
		if err != nil {
			return err
		}
		defer c.Close()
		h, err := c.Create(ctx, root, fmt.Sprint("file", i), 0o600)
		if err != nil {
			return err
		}
		data := bytes.Repeat([]byte{byte(i), byte(round), 7, 11, 13}, size/5)
		for at := 0; at < len(data); {
			n, err := c.Write(ctx, h, uint64(at), data[at:], wire.Unstable)
			if err != nil {
				return err
			}
			at += n
		}
		got := make([]byte, size)
		for at := 0; at < size; {
			n, err := c.Read(ctx, h, uint64(at), got[at:])
			if err != nil || n == 0 {
				return fmt.Errorf("%d bytes at %d: %w", n, at, err)
			}
			at += n
		}
		if !bytes.Equal(got, data) {
			return fmt.Errorf("what was read is not what was written")
		}
		return nil
	}
	var all sync.WaitGroup
	for i := range busy {
		all.Go(func() {
			for round := range visits {
				if err := visit(i, round); err != nil {
					t.Errorf("connection %d, visit %d: %v", i, round, err)
				}
			}
		})
	}
	all.Wait()
	for _, c := range quiet {
		if _, err := c.GetAttr(ctx, root); err != nil {
			t.Errorf("a connection that was idle: %v", err)
		}
		c.Close()
	}
	// The daemon keeps each file open for a while, once after a read and once after a write.
	for end := time.Now().Add(patience); open() > before+2*busy; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d files are open, %d were", open(), before)
		}
	}
}
