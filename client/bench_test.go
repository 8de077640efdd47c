package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
)

// Every workload over every transport: so many operations as asked for, and
// nothing left behind.
func TestBenchWorkloads(t *testing.T) {
	s := startServer(t)
	for name, target := range s.targets() {
		for _, workload := range client.Workloads() {
			for _, size := range []int{4096, 1 << 20} {
				t.Run(fmt.Sprint(name, "/", workload, "/", size), func(t *testing.T) {
					m, err := client.Bench(within(t), client.BenchConfig{
						Target: target, Export: "/x", Workload: workload, Size: size, FileSize: 2 << 20, Files: 100,
						Depth: 8, Connections: 2, Ops: 100,
					})
					must(t, err)
					if m.Operations != 100 {
						t.Errorf("%d operations", m.Operations)
					}
					moves := strings.Contains(workload, "read") || strings.Contains(workload, "write")
					if (m.Bytes > 0) != moves || moves && workload != "readdirplus" && m.Bytes != 100*int64(size) {
						t.Errorf("%d bytes", m.Bytes)
					}
					if l := m.Latency; l.P50 <= 0 || l.P50 > l.P90 || l.P90 > l.P99 || l.P99 > l.P999 || l.P999 > l.Max {
						t.Errorf("latencies are %+v", l)
					}
				})
			}
		}
	}
	c := dial(t, s.targets()["tcp"])
	root, err := c.MountRoot(within(t), "/x", 0)
	must(t, err)
	for e, err := range c.NFS3().Readdir(within(t), root) {
		must(t, err)
		if e.Name != "." && e.Name != ".." {
			t.Errorf("%s is left behind", e.Name)
		}
	}
}

func TestBenchRefusals(t *testing.T) {
	s := startServer(t)
	target := s.targets()["tcp"]
	for what, cfg := range map[string]client.BenchConfig{
		"no such workload": {Target: target, Export: "/x", Workload: "chat", Ops: 1},
		"no such export":   {Target: target, Export: "/y", Workload: "read", Ops: 1},
	} {
		if m, err := client.Bench(within(t), cfg); err == nil {
			t.Errorf("%s: measured %+v", what, m)
		}
	}
}

// A measurement that is called off leaves nothing behind either.
func TestBenchCalledOff(t *testing.T) {
	s := startServer(t)
	c := dial(t, s.targets()["tcp"])
	root, err := c.MountRoot(within(t), "/x", 0)
	must(t, err)
	names := func() (n int) {
		for e, err := range c.NFS3().Readdir(within(t), root) {
			must(t, err)
			if e.Name != "." && e.Name != ".." {
				n++
			}
		}
		return n
	}
	for name, target := range s.targets() {
		ctx, cancel := context.WithCancel(within(t))
		ended := make(chan error, 1)
		go func() {
			_, err := client.Bench(ctx, client.BenchConfig{
				Target: target, Export: "/x", Workload: "create", Depth: 4, Duration: patience,
			})
			ended <- err
		}()
		for names() == 0 {
			runtime.Gosched()
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: ended with %v", name, err)
		}
		if n := names(); n != 0 {
			t.Errorf("%s: %d names are left behind", name, n)
		}
	}
}

// The keys are an interface: scripts read them.
func TestBenchKeys(t *testing.T) {
	b, err := json.Marshal(client.Measured{})
	must(t, err)
	for _, key := range []string{
		"server", "transport", "export", "workload", "size", "file_size", "depth", "connections", "elapsed_ns",
		"operations", "bytes", "delayed", "operations_per_second", "bytes_per_second", "latency", "p50_ns", "p90_ns",
		"p99_ns", "p999_ns", "max_ns", "cpu_ns", "cpu_share", "cpu_per_operation_ns", "processors",
	} {
		if !strings.Contains(string(b), `"`+key+`":`) {
			t.Errorf("no key %s in %s", key, b)
		}
	}
}
