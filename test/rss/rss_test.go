//go:build interop

package rss

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

const (
	kib = 1 << 10
	mib = 1 << 20
	// fileSize is the number of bytes that the client writes and reads back.
	fileSize = 1 << 30
	transfer = 1 * mib
	// slack is the memory, in bytes, that the daemon may take beyond its memory when idle and its
	// limit on payload memory.
	slack = 16 * mib
	// idleConnection is the largest amount of memory that an idle RDMA connection may take, in
	// bytes.
	idleConnection = 64 * kib
)

type daemon struct {
	*servertest.Process
	tcp, rdma netip.AddrPort
}

// start builds and starts a daemon with this limit on payload memory (the option ceiling).
func start(t *testing.T, ceiling string) *daemon {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "nfsrdmad")
	build := exec.Command("go", "build", "-o", program, "./cmd/nfsrdmad")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ip := netip.AddrFrom4([4]byte{127, byte(1 + rand.IntN(250)), byte(rand.IntN(250)), byte(2 + rand.IntN(250))})
	d := &daemon{tcp: servertest.FreePort(t, ip), rdma: servertest.FreePort(t, ip)}
	config := filepath.Join(dir, "nfsrdmad.toml")
	text := fmt.Sprintf(`
rdma = [%q]
tcp = [%q]
state_dir = %q
rpcbind = false
[memory]
ceiling = %q
[[export]]
path = %q
name = "/"
options = "insecure,no_root_squash,async"
`, d.rdma, d.tcp, filepath.Join(dir, "state"), ceiling, t.TempDir())
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	d.Process = servertest.StartProcess(t, exec.Command(program, "serve", "--config", config))
	d.AwaitLine("serving")
	return d
}

// status returns the value of a line of the daemon's /proc/PID/status, in bytes.
func (d *daemon) status(t *testing.T, key string) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.PID()))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if value, found := strings.CutPrefix(line, key+":"); found {
			n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
			if err != nil {
				t.Fatal(err)
			}
			return n * kib
		}
	}
	t.Fatalf("no %s in its status", key)
	return 0
}

func (d *daemon) dial(t *testing.T, ctx context.Context, transport string) *servertest.Client {
	t.Helper()
	dial, addr := servertest.DialTCP, d.tcp
	if transport == "rdma" {
		dial, addr = servertest.DialRDMA, d.rdma
	}
	c, err := dial(ctx, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// block fills b with the content of MiB number n of the file.
func block(n int, b []byte) []byte {
	for i := 0; i+16 <= len(b); i += 16 {
		binary.LittleEndian.PutUint64(b[i:], uint64(n))
		binary.LittleEndian.PutUint64(b[i+8:], uint64(i))
	}
	return b
}

// While several connections write 1 GiB and read it back, with many calls under way, the daemon
// takes at most its memory when idle, its limit on payload memory, and 16 MiB.
func TestPeakMemoryStaysUnderTheCeiling(t *testing.T) {
	const conns, depth = 4, 32
	for _, transport := range []string{"rdma", "tcp"} {
		for _, ceiling := range []int{64, 256} {
			t.Run(fmt.Sprintf("%s/%dM", transport, ceiling), func(t *testing.T) {
				d := start(t, fmt.Sprintf("%dM", ceiling))
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
				defer cancel()
				idle := d.status(t, "VmRSS")
				clients := make([]*servertest.Client, conns)
				for i := range clients {
					clients[i] = d.dial(t, ctx, transport)
				}
				dir, err := clients[0].Mount(ctx, "/")
				if err != nil {
					t.Fatal(err)
				}
				h, err := clients[0].Create(ctx, dir, "file", 0o600)
				if err != nil {
					t.Fatal(err)
				}
				// inBlocks calls do for each MiB of the file, up to conns*depth at a time.
				inBlocks := func(do func(c *servertest.Client, n int, b []byte) error) {
					t.Helper()
					blocks := make(chan int)
					var work sync.WaitGroup
					failed := make(chan error, conns*depth)
					for i := range conns * depth {
						work.Go(func() {
							b := make([]byte, transfer)
							for n := range blocks {
								if err := do(clients[i%conns], n, b); err != nil {
									failed <- fmt.Errorf("MiB %d: %w", n, err)
									break
								}
							}
							for range blocks {
							}
						})
					}
					for n := range fileSize / transfer {
						blocks <- n
					}
					close(blocks)
					work.Wait()
					select {
					case err := <-failed:
						t.Fatal(err)
					default:
					}
				}
				inBlocks(func(c *servertest.Client, n int, b []byte) error {
					for at := 0; at < len(b); {
						w, err := c.Write(ctx, h, uint64(n*transfer+at), block(n, b)[at:], wire.Unstable)
						if err != nil {
							return err
						}
						at += w
					}
					return nil
				})
				if err := clients[0].Commit(ctx, h); err != nil {
					t.Fatal(err)
				}
				written := d.status(t, "VmHWM")
				inBlocks(func(c *servertest.Client, n int, b []byte) error {
					for at := 0; at < len(b); {
						r, err := c.Read(ctx, h, uint64(n*transfer+at), b[at:])
						if err != nil || r == 0 {
							return fmt.Errorf("%d bytes at %d: %w", r, at, err)
						}
						at += r
					}
					if !bytes.Equal(b, block(n, make([]byte, transfer))) {
						return fmt.Errorf("what was read is not what was written")
					}
					return nil
				})
				peak := d.status(t, "VmHWM")
				t.Logf("idle %.1f MiB, peak %.1f MiB after writing, %.1f MiB after reading, ceiling %d MiB",
					float64(idle)/mib, float64(written)/mib, float64(peak)/mib, ceiling)
				if most := idle + ceiling*mib + slack; peak > most {
					t.Errorf("the peak is %.1f MiB, %.1f MiB more than allowed", float64(peak)/mib, float64(peak-most)/mib)
				}
			})
		}
	}
}

// An idle RDMA connection with 128 granted credits takes less than 64 KiB.
func TestIdleConnectionIsSmall(t *testing.T) {
	const conns = 200
	d := start(t, "64M")
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	connect := func(n int) {
		for range n {
			c := d.dial(t, ctx, "rdma")
			dir, err := c.Mount(ctx, "/") // the reply grants the credits
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.GetAttr(ctx, dir); err != nil {
				t.Fatal(err)
			}
		}
	}
	connect(20) // allocates the memory that all connections share
	before := d.status(t, "VmRSS")
	connect(conns)
	each := (d.status(t, "VmRSS") - before) / conns
	t.Logf("%d bytes for each of %d connections", each, conns)
	if each >= idleConnection {
		t.Errorf("an idle connection takes %d bytes", each)
	}
}
