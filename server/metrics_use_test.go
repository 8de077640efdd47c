package server

import (
	"strconv"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
)

// collected has metrics with the values of a snapshot.
type collected struct {
	metrics []metric
	now     counted
}

func (c *collected) Describe(ch chan<- *prometheus.Desc) {
	for i := range c.metrics {
		ch <- c.metrics[i].desc()
	}
}

func (c *collected) Collect(ch chan<- prometheus.Metric) {
	for i := range c.metrics {
		c.metrics[i].collect(&c.now, ch)
	}
}

// Exports whose names are not UTF-8 have values of their own, under names that Prometheus accepts.
func TestMetricsOfAnExportWhoseNameIsNotUTF8(t *testing.T) {
	names := []string{"/data", "/\xe4", "/\xf6"}
	c := &collected{metrics: useMetrics}
	for _, name := range names {
		c.now.accounts = append(c.now.accounts, &export.Export{Name: name})
	}
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]bool)
	for _, f := range families {
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if l.GetName() == "export" {
					got[l.GetValue()] = true
				}
			}
		}
	}
	if len(got) != len(names) || !got["/data"] || !got[strconv.Quote("/\xe4")] {
		t.Errorf("the exports are %v", got)
	}
}
