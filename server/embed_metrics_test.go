package server_test

import (
	"net"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/server"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// gathered returns how many values each metric of a registry has, by name.
func gathered(t *testing.T, from prometheus.Gatherer) map[string]int {
	t.Helper()
	all, err := from.Gather()
	if err != nil {
		t.Error(err)
	}
	named := make(map[string]int)
	for _, f := range all {
		named[f.GetName()] = len(f.GetMetric())
	}
	return named
}

// embedded makes a server that registers its metrics. It serves until stop.
func embedded(t *testing.T, in prometheus.Registerer) (s *server.Server, stop func()) {
	t.Helper()
	s, err := server.NewFileSystem(tcpListener(t), memfs.New(memfs.Options{RootMode: 0o777}), server.FileSystemOptions{
		Name: "/files", RDMA: []config.Listen{{None: true}}, Metrics: in,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, run(t, s)
}

// A program finds the metrics of its server in its own registry, with the times of calls, and without those of the
// process, until Serve has ended. Then another server can register.
func TestMetricsInTheProgramsRegistry(t *testing.T) {
	in := prometheus.NewRegistry()
	for range 2 {
		s, stop := embedded(t, in)
		at := s.TCPAddrs()[0]
		write4(t, testContext(t), client.SessionConfig{
			Target: client.Target{Transport: client.TCP, Host: at.Addr().String(), Port: int(at.Port()), Cred: client.Self()},
		}, "file", "all is well")
		is := gathered(t, in)
		for _, name := range []string{"nfsrdmad_calls_total", "nfsrdmad_call_seconds", "nfsrdmad_nfs4_operations_total", "nfsrdmad_nfs4_operation_seconds"} {
			if is[name] == 0 {
				t.Errorf("there is no %s", name)
			}
		}
		for name := range is {
			if !strings.HasPrefix(name, "nfsrdmad_") {
				t.Errorf("%s is not the server's", name)
			}
		}
		stop()
		if is := gathered(t, in); len(is) > 0 {
			t.Errorf("%d metrics are left", len(is))
		}
	}
}

// Two servers cannot register with one Registerer: the second is not made, and its listener stays open. With labels that
// tell them apart they can.
func TestMetricsOfTwoServers(t *testing.T) {
	in := prometheus.NewRegistry()
	embedded(t, in)
	fs := &closings{FileSystem: memfs.New(memfs.Options{})}
	l := tcpListener(t)
	_, err := server.NewFileSystem(l, fs, server.FileSystemOptions{RDMA: []config.Listen{{None: true}}, Metrics: in})
	if err == nil || !strings.Contains(err.Error(), "WrapRegistererWith") || fs.n.Load() != 1 {
		t.Errorf("the second: %v, and its file system was closed %d times", err, fs.n.Load())
	}
	if c, err := net.Dial("tcp", l.Addr().String()); err != nil {
		t.Error("its listener:", err)
	} else {
		c.Close()
	}
	labelled := prometheus.NewRegistry()
	for _, name := range []string{"a", "b"} {
		embedded(t, prometheus.WrapRegistererWith(prometheus.Labels{"server": name}, labelled))
	}
	if n := gathered(t, labelled)["nfsrdmad_build_info"]; n != 2 {
		t.Errorf("two servers have %d values", n)
	}
}

// The registry may be read at any time, also while the server ends.
func TestMetricsAreReadWhileTheServerEnds(t *testing.T) {
	in := prometheus.NewRegistry()
	for range 8 {
		_, stop := embedded(t, in)
		first, ended, read := make(chan struct{}), make(chan struct{}), make(chan struct{})
		go func() {
			defer close(read)
			for n := 0; ; n++ {
				gathered(t, in)
				if n == 0 {
					close(first)
				}
				select {
				case <-ended:
					return
				default:
				}
			}
		}()
		<-first
		stop()
		close(ended)
		<-read
	}
}
