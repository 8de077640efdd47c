//go:build bench

package kernel

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// TestRDMAVersionsBenchmark compares the versions of RPC-over-RDMA with the tool bench, against one daemon in the same
// guest: over rxe, and over the software RNIC. The versions take turns. It prints a Markdown table with the median of
// each version and the median of the ratios of the rounds, and then what the benchmark of transport/rdma measures over
// rxe, among it long calls.
func TestRDMAVersionsBenchmark(t *testing.T) {
	const rounds = 3
	options := lab.Options{Memory: 1000, Limit: 40 * time.Minute, Env: []string{
		"NFSRDMAD=" + build(t, "cmd/nfsrdmad", "-tags", "verbs,netgo,osusergo"), fmt.Sprint("ROUNDS=", rounds), "DURATION=2s",
	}}
	g := lab.Boot(t, lab.NewNetworkOf(t, jumbo), options, "RDMA_DEVICE=rxe\n"+script(t, "rdma_versions"), buildTest(t, "transport/rdma"))
	output := g.Succeed()
	var b strings.Builder
	b.WriteString("\n| operations per second | version 1 | version 2 | version 2 / version 1 |\n|---|---:|---:|---:|\n")
	for _, device := range []struct{ name, provider string }{{"rxe", "verbs"}, {"software RNIC", "iwarp"}} {
		for _, workload := range []string{"null", "getattr", "read", "write", "readdirplus"} {
			var rates [2][]float64
			var ratios []float64
			for round := range rounds {
				for version := range 2 {
					file := g.Shared(fmt.Sprintf("%s-%s-%d-%d.json", device.provider, workload, version+1, round+1))
					rates[version] = append(rates[version], rateOfVersion(t, file, version+1))
				}
				ratios = append(ratios, rates[1][round]/rates[0][round])
			}
			fmt.Fprintf(&b, "| %s, %s | %.0f | %.0f | %.2f |\n", device.name, workload, median(rates[0]), median(rates[1]), median(ratios))
		}
	}
	fmt.Print(b.String())
	for line := range strings.Lines(output) {
		if strings.HasPrefix(line, "BenchmarkVersions") {
			fmt.Print(line)
		}
	}
}

// rateOfVersion returns the operations per second in a result of the tool bench. It fails the test unless the
// connection had this version of RPC-over-RDMA.
func rateOfVersion(t *testing.T, file string, version int) float64 {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var result struct {
		Version int     `json:"rdma_version"`
		Rate    float64 `json:"operations_per_second"`
	}
	if err := json.Unmarshal(text, &result); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if result.Version != version || result.Rate <= 0 {
		t.Fatalf("%s: %.0f operations per second with version %d, want version %d", file, result.Rate, result.Version, version)
	}
	return result.Rate
}
