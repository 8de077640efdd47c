package server

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// The metrics of devices have values for each RDMA device in use. A server without devices has
// none of them.
func TestMetricsOfDevices(t *testing.T) {
	read := func(c *counted) map[string]float64 {
		all := make(map[string]float64)
		for i := range metrics {
			m := &metrics[i]
			if strings.HasPrefix(m.name, "nfsrdmad_device_") {
				m.read(c, func(v float64, labels ...string) { all[fmt.Sprint(m.name, labels)] = v })
			}
		}
		return all
	}
	with := carried{"rdma", traffic{memoryLimit: 100, memory: 7, devices: []rdmacm.DeviceStats{
		{Name: "mlx5_0", Protocol: "RoCE", Connections: 3, MaxConnections: 1000, Registered: 1 << 20, Active: true,
			Events: []rdmacm.Count{{What: "PORT_ERR", N: 2}}},
		{Name: "mlx5_1", Protocol: "InfiniBand"},
	}}}
	want := map[string]float64{
		"nfsrdmad_device_connections[mlx5_0 RoCE]":             3,
		"nfsrdmad_device_connections[mlx5_1 InfiniBand]":       0,
		"nfsrdmad_device_connections_limit[mlx5_0 RoCE]":       1000,
		"nfsrdmad_device_connections_limit[mlx5_1 InfiniBand]": 0,
		"nfsrdmad_device_registered_bytes[mlx5_0 RoCE]":        1 << 20,
		"nfsrdmad_device_registered_bytes[mlx5_1 InfiniBand]":  0,
		"nfsrdmad_device_port_up[mlx5_0 RoCE]":                 1,
		"nfsrdmad_device_port_up[mlx5_1 InfiniBand]":           0,
		"nfsrdmad_device_events_total[mlx5_0 PORT_ERR]":        2,
		"nfsrdmad_device_memory_bytes[limit]":                  100,
		"nfsrdmad_device_memory_bytes[in_use]":                 7,
	}
	if got := read(&counted{transports: []carried{{name: "tcp"}, with}}); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := read(&counted{transports: []carried{{name: "tcp"}, {name: "rdma"}}}); len(got) != 0 {
		t.Errorf("without devices: %v", got)
	}
}
