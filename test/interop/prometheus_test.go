//go:build interop

package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

const (
	rulesFile     = "../../configs/prometheus-rules.yml"
	dashboardFile = "../../configs/grafana-dashboard.json"
)

// Debian's Prometheus scrapes the daemon while clients of NFSv3 and NFSv4.2 use it. Each expression of the dashboard returns
// series. Each alert can be evaluated, each metric that it names has series, and none fires for a server that works.
func TestPrometheus(t *testing.T) {
	for _, program := range []string{"prometheus", "promtool"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed: apt-get install prometheus", program)
		}
	}
	dir := t.TempDir()
	if out, err := exec.Command("promtool", "check", "rules", rulesFile).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ip := netip.AddrFrom4([4]byte{127, byte(1 + rand.IntN(250)), byte(rand.IntN(250)), byte(2 + rand.IntN(250))})
	tcp, metrics, web := netip.AddrPortFrom(ip, config.DefaultTCPPort), netip.AddrPortFrom(ip, 9427), netip.AddrPortFrom(ip, 9090)
	for _, d := range []string{"export", "state"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	p := servertest.StartProcess(t, exec.Command(daemon, "serve", "--config", write("nfsrdmad.toml", fmt.Sprintf("metrics = %q\n", metrics)),
		"--state-dir", filepath.Join(dir, "state"), "--export", filepath.Join(dir, "export")+":/x,rw,no_root_squash,insecure", "--rdma", "none", "--tcp", tcp.String()))
	p.AwaitLine("serving")
	scrape(t, metrics.String())
	rules, err := filepath.Abs(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	prometheus := exec.Command("prometheus", "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", web.String(), "--config.file",
		write("prometheus.yml", fmt.Sprintf(`
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
  - job_name: nfsrdmad
    static_configs: [{targets: [%q]}]
`, rules, metrics)))
	if testing.Verbose() {
		prometheus.Stderr = os.Stderr
	}
	if err := prometheus.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		prometheus.Process.Kill()
		prometheus.Wait()
	}()
	ctx, end := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	defer clients.Wait()
	defer end()
	clients.Go(func() { useNFS3(ctx, t, tcp) })
	clients.Go(func() { useNFS4(ctx, t, tcp) })

	ask := func(expression string) (n int, err error) {
		expression = strings.NewReplacer("$instance", ".*", "$__rate_interval", "1m").Replace(expression)
		return query(web.String(), expression)
	}
	for what, expression := range dashboard(t) {
		var n int
		var err error
		if !await.Within(2*time.Minute, func() bool { n, err = ask(expression); return n > 0 }) {
			t.Errorf("panel %s: %s: %d series, %v", what, expression, n, err)
		}
	}
	for name, expression := range alerts(t) {
		if n, err := ask(expression); err != nil || n > 0 {
			t.Errorf("alert %s: %s: %d series, %v", name, expression, n, err)
		}
		for _, metric := range regexp.MustCompile(`\b(?:nfsrdmad|process)_\w+|\bup\b`).FindAllString(expression, -1) {
			if strings.HasPrefix(metric, "nfsrdmad_device_") {
				continue // this server uses no RDMA device
			}
			if n, err := ask(metric); err != nil || n == 0 {
				t.Errorf("alert %s: %s: %d series, %v", name, metric, n, err)
			}
		}
	}
}

// scrape checks that promtool finds nothing wrong with the daemon's metrics.
func scrape(t *testing.T, at string) {
	t.Helper()
	response, err := http.Get("http://" + at + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	check := exec.Command("promtool", "check", "metrics")
	check.Stdin = response.Body
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

// useNFS3 makes calls of MOUNT and NFSv3 until ctx ends, some of which fail.
func useNFS3(ctx context.Context, t *testing.T, at netip.AddrPort) {
	c, err := servertest.DialTCP(ctx, at)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	for ctx.Err() == nil {
		_, _ = c.Mount(ctx, "/none")
		root, err := c.Mount(ctx, "/x")
		if err != nil {
			break
		}
		if h, err := c.Create(ctx, root, "three", 0o600); err == nil {
			_, _ = c.Write(ctx, h, 0, make([]byte, 4096), wire.FileSync)
			_, _ = c.Read(ctx, h, 0, make([]byte, 4096))
		}
		_, _ = c.Lookup(ctx, root, "none")
	}
}

// useNFS4 makes look-ups by NFSv4.2 until ctx ends, every second of which fails.
func useNFS4(ctx context.Context, t *testing.T, at netip.AddrPort) {
	s, err := client.DialSession(ctx, client.SessionConfig{
		Target: client.Target{Transport: client.TCP, Host: at.Addr().String(), Port: int(at.Port()), Cred: client.Self()},
	})
	if err != nil {
		t.Error(err)
		return
	}
	defer s.Abandon()
	for ctx.Err() == nil {
		n := s.NFS4()
		_, _ = n.Walk(ctx, nil, "/x")
		_, _ = n.Walk(ctx, nil, "/x/none")
	}
}

// query asks Prometheus for the value of an expression now, and returns the number of series.
func query(at, expression string) (int, error) {
	response, err := http.Get("http://" + at + "/api/v1/query?query=" + url.QueryEscape(expression))
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	var answer struct {
		Error string
		Data  struct{ Result []any }
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return 0, err
	}
	if answer.Error != "" {
		return 0, errors.New(answer.Error)
	}
	return len(answer.Data.Result), nil
}

// dashboard returns the expressions of the dashboard by the titles of their panels.
func dashboard(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, RefID string }
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all[p.Title+" "+target.RefID] = target.Expr
		}
	}
	if len(all) < 20 {
		t.Fatalf("the dashboard has %d expressions", len(all))
	}
	return all
}

// alerts returns the expressions of the alerts by their names.
func alerts(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, m := range regexp.MustCompile(`- alert: (\w+)\n\s+expr: (.+)\n`).FindAllSubmatch(text, -1) {
		all[string(m[1])] = string(m[2])
	}
	if n := strings.Count(string(text), "alert:"); n == 0 || n != len(all) {
		t.Fatalf("of %d alerts %d could be read", n, len(all))
	}
	return all
}
