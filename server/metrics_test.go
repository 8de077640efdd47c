package server_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// The daemon exports the metrics in docs/metrics.md, and they count the test's calls.
func TestMetrics(t *testing.T) {
	ip := ownLoopback()
	metrics, tcp, rdma := servertest.FreePort(t, ip).String(), servertest.FreePort(t, ip), servertest.FreePort(t, ip)
	config := writeFile(t, "nfsrdmad.toml", fmt.Sprintf(`
metrics = %q
tcp = [%q]
rdma = [%q]
rdma_versions = [1, 2]
state_dir = %q
[[export]]
path = %q
name = "/"
options = "insecure,no_root_squash"
`, metrics, tcp, rdma, t.TempDir(), t.TempDir()))
	p := nfsrdmad(t, "serve", "--config", config)
	p.AwaitLine("serving")
	ctx := testContext(t)
	d := &daemon{Process: p, tcp: tcp, rdma: rdma}
	const size = 100_000
	for _, c := range d.dialBoth(t) {
		dir, err := c.Mount(ctx, "/")
		if err != nil {
			t.Fatal(err)
		}
		h, err := c.Create(ctx, dir, "file", 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(ctx, h, 0, make([]byte, size), wire.FileSync); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(ctx, h, 0, make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Lookup(ctx, dir, "none"); err == nil {
			t.Fatal("LOOKUP of what is not there")
		}
		if _, err := c.Mount(ctx, "none"); err == nil {
			t.Fatal("MNT of what is not there")
		}
	}
	if _, err := d.session(t, "tcp", client.Callbacks{}).Walk(ctx, nil, "/"); err != nil {
		t.Fatal(err)
	}
	first := scrape(t, metrics)
	if want := `nfsrdmad_client_bytes_total{client="other",direction="read"} 200000`; !strings.Contains(first, "\n"+want+"\n") {
		t.Errorf("before a client has values of its own, there is no line %s", want)
	}
	text := scrape(t, metrics)
	for _, want := range []string{
		`nfsrdmad_calls_total{procedure="WRITE",program="nfs",status="success",version="3"} 2`,
		`nfsrdmad_calls_total{procedure="MNT",program="mount",status="success",version="3"} 2`,
		`nfsrdmad_calls_total{procedure="MNT",program="mount",status="failed",version="3"} 2`,
		`nfsrdmad_connections{transport="rdma"} 1`,
		`nfsrdmad_connections{transport="tcp"} 2`,
		`nfsrdmad_bytes_total{transport="rdma",way="read_chunk"} 100000`,
		`nfsrdmad_bytes_total{transport="rdma",way="write_chunk"} 100000`,
		`nfsrdmad_payload_memory_bytes{kind="ceiling"} 2.68435456e+08`,
		`nfsrdmad_call_seconds_count{procedure="READ",program="nfs"} 2`,
		`nfsrdmad_call_seconds_bucket{procedure="READ",program="nfs",le="+Inf"} 2`,
		`nfsrdmad_nfs4_operations_total{operation="CREATE_SESSION",status="ok"} 1`,
		`nfsrdmad_nfs4_operation_seconds_count{operation="CREATE_SESSION"} 1`,
		`nfsrdmad_nfs3_operations_total{operation="WRITE",status="ok"} 2`,
		`nfsrdmad_nfs3_operations_total{operation="LOOKUP",status="noent"} 2`,
		`nfsrdmad_export_operations_total{export="/",kind="read"} 2`,
		`nfsrdmad_export_operations_total{export="/",kind="write"} 2`,
		`nfsrdmad_export_bytes_total{direction="read",export="/"} 200000`,
		`nfsrdmad_export_bytes_total{direction="written",export="/"} 200000`,
		`nfsrdmad_client_calls_total{client="127.0.0.1"} 0`,
		`nfsrdmad_client_connections{client="127.0.0.1"} 3`,
		`nfsrdmad_waits{for="thread"} 0`,
		`nfsrdmad_waits_total{for="memory"} 0`,
		`nfsrdmad_wait_seconds_total{for="turn"} 0`,
		`nfsrdmad_stalled_total{transport="rdma"} 0`,
		`nfsrdmad_transport_faults_total{reason="truncated_list",transport="rdma"} 0`,
		`nfsrdmad_seats{stage="known"} 3`,
		`nfsrdmad_seats{stage="stranger"} 0`,
		`nfsrdmad_connections_refused_total{reason="full"} 0`,
		`nfsrdmad_connections_ended_total{reason="evicted"} 0`,
	} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("there is no line %s", want)
		}
	}
	for _, want := range []string{"\nnfsrdmad_build_info{", "\nprocess_open_fds ", "\ngo_goroutines "} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q", want)
		}
	}
	document, err := os.ReadFile(root + "/docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := make(map[string]bool)
	for _, name := range regexp.MustCompile(`nfsrdmad_\w+`).FindAllString(string(document), -1) {
		documented[strings.TrimSuffix(name, "_bucket")] = true
	}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (nfsrdmad_\w+)`).FindAllStringSubmatch(text, -1) {
		if !documented[m[1]] {
			t.Errorf("docs/metrics.md does not name %s", m[1])
		}
		delete(documented, m[1])
	}
	for name := range documented {
		if strings.HasPrefix(name, "nfsrdmad_device_") {
			continue // this server uses no RDMA device: see TestMetricsOfDevices
		}
		t.Errorf("docs/metrics.md names %s, which is not there", name)
	}
}

// If the address for metrics is not available, the daemon serves files all the same.
func TestGoesOnWithoutMetrics(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir, tcp := t.TempDir(), servertest.FreePort(t, ownLoopback())
	config := writeFile(t, "nfsrdmad.toml", fmt.Sprintf("metrics = %q\n", l.Addr()))
	p := nfsrdmad(t, "serve", "--config", config, "--state-dir", t.TempDir(), "--tcp", tcp.String(), "--rdma", "none", "--export", dir+":/,insecure,no_root_squash")
	p.AwaitLine("serving")
	says(t, p, "cannot listen for metrics", l.Addr().String(), "address already in use")
	ctx := testContext(t)
	c, err := servertest.DialTCP(ctx, tcp)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	root, err := c.Mount(ctx, "/")
	if err != nil {
		t.Fatal(err)
	}
	h, err := c.Create(ctx, root, "file", 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(ctx, h, 0, []byte("served"), wire.FileSync); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(got) != "served" {
		t.Errorf("in the file is %q, %v", got, err)
	}
	p.Signal(syscall.SIGTERM)
	if status := p.Wait(); status != 0 {
		t.Errorf("exit status %d:\n%s", status, p.Output())
	}
}

// scrape asks for the metrics on a connection of its own.
func scrape(t *testing.T, at string) string {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + at + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
