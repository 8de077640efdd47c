package server

import (
	"strconv"

	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
)

// versionMetrics are the metrics by version of RPC-over-RDMA.
var versionMetrics = []metric{
	{name: "nfsrdmad_rdma_version_connections", help: "Connections by version of RPC-over-RDMA.", kind: gauge, labels: []string{"version"},
		meaning: "connections over RDMA by version of RPC-over-RDMA (`rdma_versions`). If the daemon speaks both versions, a connection is not listed before its client has sent a message",
		read:    ofVersions(func(c rdma.VersionCounts) int64 { return c.Connections })},
	{name: "nfsrdmad_rdma_version_connections_total", help: "Connections accepted by version of RPC-over-RDMA.", kind: counter, labels: []string{"version"},
		meaning: "the same connections since the start",
		read:    ofVersions(func(c rdma.VersionCounts) int64 { return c.Accepted })},
	{name: "nfsrdmad_rdma_messages_total", help: "Messages by version of RPC-over-RDMA.", kind: counter, labels: []string{"version", "direction"},
		meaning: "messages that were `received` and `sent` over RDMA by version of RPC-over-RDMA: in version 1 calls, replies and errors; in version 2 also parts of calls and replies, properties and grants of credits",
		read: func(c *counted, put put) {
			eachVersion(c, func(version string, n rdma.VersionCounts) {
				put(float64(n.Received), version, "received")
				put(float64(n.Sent), version, "sent")
			})
		}},
	{name: "nfsrdmad_rdma_parts_total", help: "Messages of RPC-over-RDMA version 2 that were parts.", kind: counter, labels: []string{"direction"},
		meaning: "those messages of version 2 that were parts of a call or reply that is longer than one message, without its last part. In version 1 such calls and replies use chunks",
		read: func(c *counted, put put) {
			eachVersion(c, func(version string, n rdma.VersionCounts) {
				if version == "2" {
					put(float64(n.PartsReceived), "received")
					put(float64(n.PartsSent), "sent")
				}
			})
		}},
	{name: "nfsrdmad_rdma_errors_sent_total", help: "RDMA_ERRORs sent by version of RPC-over-RDMA.", kind: counter, labels: []string{"version"},
		meaning: "errors of RPC-over-RDMA that the daemon answered messages with, by version; `nfsrdmad_transport_faults_total` has the reasons. With `log_level = \"debug\"` a line `version of RPC-over-RDMA chosen` names the client and the version of each connection, if the daemon speaks both versions",
		read:    ofVersions(func(c rdma.VersionCounts) int64 { return c.Errors })},
}

// eachVersion calls f for each version of RPC-over-RDMA that the daemon speaks.
func eachVersion(c *counted, f func(version string, n rdma.VersionCounts)) {
	for _, t := range c.transports {
		for i, n := range t.versions {
			f(strconv.Itoa(i+1), n)
		}
	}
}

// ofVersions returns a read function for a metric with one value for each version of RPC-over-RDMA.
func ofVersions(value func(rdma.VersionCounts) int64) func(*counted, put) {
	return func(c *counted, put put) {
		eachVersion(c, func(version string, n rdma.VersionCounts) { put(float64(value(n)), version) })
	}
}
