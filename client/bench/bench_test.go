package bench_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client/bench"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/testserver"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// Every workload makes the given number of operations over every transport, and leaves nothing
// behind.
func TestBenchWorkloads(t *testing.T) {
	s := testserver.Start(t)
	for name, target := range s.Targets() {
		for _, workload := range bench.Workloads() {
			for _, size := range []int{4096, 1 << 20} {
				t.Run(fmt.Sprint(name, "/", workload, "/", size), func(t *testing.T) {
					m, err := bench.Run(testserver.Within(t), bench.Config{
						Target: target, Export: "/x", Workload: workload, Size: size, FileSize: 2 << 20, Files: 100,
						Depth: 8, Connections: 2, Ops: 100,
					})
					must(t, err)
					if want := map[string]int{"iwarp": 1, "memory": 1, "memory2": 2}[name]; m.RDMAVersion != want {
						t.Errorf("version %d of RPC-over-RDMA, want %d", m.RDMAVersion, want)
					}
					if m.Operations != 100 {
						t.Errorf("%d operations", m.Operations)
					}
					moves := strings.Contains(workload, "read") || strings.Contains(workload, "write")
					if (m.Bytes > 0) != moves || moves && workload != "readdirplus" && m.Bytes != 100*int64(size) {
						t.Errorf("%d bytes", m.Bytes)
					}
					// With 1 MiB each READDIRPLUS lists the whole directory: 100 files, "." and
					// "..".
					if lists := workload == "readdirplus"; (m.Entries > 0) != lists || lists && size == 1<<20 && m.Entries != 100*102 {
						t.Errorf("%d entries", m.Entries)
					}
					if l := m.Latency; l.P50 <= 0 || l.P50 > l.P90 || l.P90 > l.P99 || l.P99 > l.P999 || l.P999 > l.Max {
						t.Errorf("latencies are %+v", l)
					}
				})
			}
		}
	}
	c := testserver.Dial(t, s.Targets()["tcp"])
	root, err := c.MountRoot(testserver.Within(t), "/x", 0)
	must(t, err)
	for e, err := range c.NFS3().Readdir(testserver.Within(t), root) {
		must(t, err)
		if e.Name != "." && e.Name != ".." {
			t.Errorf("%s is left behind", e.Name)
		}
	}
}

// Every workload of NFS version 4 makes the given number of operations on one session, over every
// transport, and leaves nothing behind.
func TestBench4Workloads(t *testing.T) {
	s := testserver.Start(t)
	s.ServeNFS4(t, 0)
	for name, target := range s.Targets() {
		for _, version := range []string{"4.1", "4.2"} {
			for _, workload := range bench.Workloads4() {
				for _, plain := range []bool{false, true} {
					t.Run(fmt.Sprint(name, "/", version, "/", workload, "/", plain), func(t *testing.T) {
						const size = 4096
						m, err := bench.Run(testserver.Within(t), bench.Config{
							Target: target, NFS: version, Export: "/x", Workload: workload, Size: size, FileSize: 1 << 20, Files: 50,
							NoAttributes: plain, Depth: 8, Connections: 2, Ops: 100,
						})
						must(t, err)
						if m.Operations != 100 || m.NFS != version {
							t.Errorf("%d operations by NFS version %s", m.Operations, m.NFS)
						}
						moves := strings.Contains(workload, "read") || strings.Contains(workload, "write")
						if (m.Bytes > 0) != moves || moves && workload != "readdir" && m.Bytes != 100*size {
							t.Errorf("%d bytes", m.Bytes)
						}
						if lists := workload == "readdir"; (m.Entries > 0) != lists {
							t.Errorf("%d entries", m.Entries)
						}
					})
				}
			}
		}
	}
	c := testserver.Dial(t, s.Targets()["tcp"])
	root, err := c.MountRoot(testserver.Within(t), "/x", 0)
	must(t, err)
	for e, err := range c.NFS3().Readdir(testserver.Within(t), root) {
		must(t, err)
		if e.Name != "." && e.Name != ".." {
			t.Errorf("%s is left behind", e.Name)
		}
	}
}

func TestBenchRefusals(t *testing.T) {
	s := testserver.Start(t)
	target := s.Targets()["tcp"]
	for what, cfg := range map[string]bench.Config{
		"no such workload": {Target: target, Export: "/x", Workload: "chat", Ops: 1},
		"no such export":   {Target: target, Export: "/y", Workload: "read", Ops: 1},
		"no such version":  {Target: target, NFS: "4", Export: "/x", Workload: "read", Ops: 1},
		"not by version 4": {Target: target, NFS: "4.1", Export: "/x", Workload: "readdirplus", Ops: 1},
	} {
		if m, err := bench.Run(testserver.Within(t), cfg); err == nil {
			t.Errorf("%s: ran: %+v", what, m)
		}
	}
}

// A cancelled measurement ends at once, not after its Duration. It leaves nothing behind, whether
// it was still preparing or already measuring. In the latter case it keeps what it measured.
func TestBenchCalledOff(t *testing.T) {
	s := testserver.Start(t)
	c := testserver.Dial(t, s.Targets()["tcp"])
	root, err := c.MountRoot(testserver.Within(t), "/x", 0)
	must(t, err)
	names := func() (n int) {
		for e, err := range c.NFS3().Readdir(testserver.Within(t), root) {
			must(t, err)
			if e.Name != "." && e.Name != ".." {
				n++
			}
		}
		return n
	}
	for name, target := range s.Targets() {
		for _, atWork := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/at work %v", name, atWork), func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended, working := make(chan error, 1), make(chan struct{}, 1)
				var result *bench.Result
				go func() {
					m, err := bench.Run(ctx, bench.Config{
						Target: target, Export: "/x", Workload: "create", Depth: 4, Duration: 24 * time.Hour,
						Progress: func(p bench.Progress) {
							if p.Operations > 0 {
								select {
								case working <- struct{}{}:
								default:
								}
							}
						},
					})
					result = m
					ended <- err
				}()
				await.Until(t, "the measurement has made its directory", func() bool { return names() > 0 })
				if atWork {
					await.Receive(t, "the measurement is at work", working)
				}
				cancel()
				if err := await.Receive(t, "the measurement ends", ended); !errors.Is(err, context.Canceled) {
					t.Errorf("ended with %v", err)
				}
				// The measurement may have begun meanwhile in the other case, too.
				if atWork && (result == nil || result.Operations == 0 || result.Latency.Max == 0) || result != nil && !result.Interrupted {
					t.Errorf("the result is %+v", result)
				}
				if n := names(); n != 0 {
					t.Errorf("%d names are left behind", n)
				}
			})
			if t.Failed() {
				return // the other cases would take as long to fail
			}
		}
	}
}

// If calls are not answered, a measurement that is cancelled gives them up after its Timeout.
func TestBenchCalledOffWhileTheServerHangs(t *testing.T) {
	for _, version := range []string{"3", "4.1"} {
		t.Run(version, func(t *testing.T) {
			fs := memfs.New(memfs.Options{RootMode: 0o777})
			s := testserver.StartOver(t, fs)
			s.ServeNFS4(t, 0)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended, working := make(chan error, 1), make(chan struct{})
			var once sync.Once
			go func() {
				_, err := bench.Run(ctx, bench.Config{
					Target: s.Targets()["tcp"], NFS: version, Export: "/x", Workload: "getattr", Depth: 1, Duration: 24 * time.Hour, Timeout: 3 * time.Second,
					Progress: func(p bench.Progress) {
						if p.Operations > 0 {
							once.Do(func() { close(working) })
						}
					},
				})
				ended <- err
			}()
			await.Receive(t, "the measurement is at work", working)
			release := fs.Stall()
			defer release()
			fs.AwaitStalled(1)
			cancel()
			if err := await.Receive(t, "the measurement ends", ended); !errors.Is(err, context.Canceled) {
				t.Errorf("ended with %v", err)
			}
		})
	}
}

// Scripts read the JSON keys, so they do not change.
func TestBenchKeys(t *testing.T) {
	b, err := json.Marshal(bench.Result{})
	must(t, err)
	for _, key := range []string{
		"server", "transport", "export", "workload", "size", "file_size", "depth", "connections", "elapsed_ns",
		"operations", "bytes", "delayed", "entries", "operations_per_second", "bytes_per_second", "entries_per_second", "latency", "p50_ns", "p90_ns",
		"p99_ns", "p999_ns", "max_ns", "cpu_ns", "cpu_share", "cpu_per_operation_ns", "processors",
	} {
		if !strings.Contains(string(b), `"`+key+`":`) {
			t.Errorf("no key %s in %s", key, b)
		}
	}
}
