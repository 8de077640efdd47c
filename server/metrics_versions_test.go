package server

import (
	"fmt"
	"maps"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
)

// The metrics by version have values for the versions of RPC-over-RDMA that the server speaks, and none if it
// does not serve RDMA.
func TestMetricsByVersion(t *testing.T) {
	read := func(c *counted) map[string]float64 {
		all := make(map[string]float64)
		for i := range versionMetrics {
			m := &versionMetrics[i]
			m.read(c, func(v float64, labels ...string) { all[fmt.Sprint(m.name, labels)] = v })
		}
		return all
	}
	one := rdma.VersionCounts{Connections: 1, Accepted: 2, Received: 3, Sent: 4, Errors: 5}
	two := rdma.VersionCounts{Connections: 6, Accepted: 7, Received: 8, Sent: 9, PartsReceived: 10, PartsSent: 11, Errors: 12}
	want := map[string]float64{
		"nfsrdmad_rdma_version_connections[1]": 1, "nfsrdmad_rdma_version_connections_total[1]": 2,
		"nfsrdmad_rdma_messages_total[1 received]": 3, "nfsrdmad_rdma_messages_total[1 sent]": 4, "nfsrdmad_rdma_errors_sent_total[1]": 5,
	}
	with := func(versions ...rdma.VersionCounts) *counted {
		return &counted{transports: []carried{{name: "tcp"}, {"rdma", traffic{versions: versions}}}}
	}
	if got := read(with(one)); !maps.Equal(got, want) {
		t.Errorf("version 1 alone: %v, want %v", got, want)
	}
	maps.Copy(want, map[string]float64{
		"nfsrdmad_rdma_version_connections[2]": 6, "nfsrdmad_rdma_version_connections_total[2]": 7,
		"nfsrdmad_rdma_messages_total[2 received]": 8, "nfsrdmad_rdma_messages_total[2 sent]": 9,
		"nfsrdmad_rdma_parts_total[received]": 10, "nfsrdmad_rdma_parts_total[sent]": 11, "nfsrdmad_rdma_errors_sent_total[2]": 12,
	})
	if got := read(with(one, two)); !maps.Equal(got, want) {
		t.Errorf("both versions: %v, want %v", got, want)
	}
	if got := read(with()); len(got) != 0 {
		t.Errorf("without RDMA: %v", got)
	}
}
