package server

import (
	"os"
	"regexp"
	"testing"
)

// The dashboard and the alerts in configs name only metrics that there are.
func TestDashboardAndAlertsNameMetrics(t *testing.T) {
	known := make(map[string]bool)
	for i := range metrics {
		known[metrics[i].name] = true
		if metrics[i].took != nil {
			known[metrics[i].name+"_bucket"] = true
		}
	}
	for _, file := range []string{"../configs/grafana-dashboard.json", "../configs/prometheus-rules.yml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(`\bnfsrdmad_\w+`).FindAllString(string(text), -1)
		if len(names) == 0 {
			t.Errorf("%s names no metric", file)
		}
		for _, name := range names {
			if !known[name] {
				t.Errorf("%s names the metric %s, which is not there", file, name)
			}
		}
	}
}
