package server

import (
	"strconv"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
)

// useMetrics are the metrics about what is done in each export, and by each client.
var useMetrics = []metric{
	{name: "nfsrdmad_export_operations_total", help: "Operations on the files of an export.", kind: counter, labels: []string{"export", "kind"},
		meaning: "procedures of NFSv3, and operations of NFSv4 on a file handle, on the files of each export: `read`, `write`, and all that carry no content of files (`other`). A file system that is mounted below an export, and reached through it, counts there",
		read: ofExports(func(a *export.Account, put put) {
			for kind, n := range a.Operations {
				put(float64(n), export.Kind(kind).String())
			}
		})},
	{name: "nfsrdmad_export_errors_total", help: "Operations on the files of an export that ended with an error.", kind: counter, labels: []string{"export"},
		meaning: "those of these operations that ended with an error. Most are not faults: a LOOKUP of a name that is not there is one",
		read:    ofExports(func(a *export.Account, put put) { put(float64(a.Failed)) })},
	{name: "nfsrdmad_export_bytes_total", help: "Bytes of files that clients read and wrote in an export.", kind: counter, labels: []string{"export", "direction"},
		meaning: "bytes of files that clients have read (`read`) and written (`written`) in each export. What the server itself copies (COPY, CLONE) does not count",
		read: ofExports(func(a *export.Account, put put) {
			put(float64(a.Read), "read")
			put(float64(a.Written), "written")
		})},
	{name: "nfsrdmad_client_calls_total", help: "Calls of a client that ended.", kind: counter, labels: []string{"client"},
		meaning: "calls that ended, by the address of the client: the " + strconv.Itoa(shownClients) + " addresses that use the server most have a value of their own, and all others together have `other`. Of an IPv6 address, the first 64 bits count. A value begins with 0 when its client becomes one of these; until then its calls count as those of `other`. A client gives its place to another one if that uses more than twice as much, in the mean of some 10 minutes: calls count, and each 32 KiB of files like a call",
		read:    ofClients(func(c *clientUse) float64 { return float64(c.Calls) })},
	{name: "nfsrdmad_client_seconds_total", help: "How long calls of a client took the server.", kind: counter, labels: []string{"client"},
		meaning: "how long these calls took the server, from when the whole call was there and had its payload memory, with all waits",
		read:    ofClients(func(c *clientUse) float64 { return c.Took.Seconds() })},
	{name: "nfsrdmad_client_bytes_total", help: "Bytes of files that a client read and wrote.", kind: counter, labels: []string{"client", "direction"},
		meaning: "bytes of files that the clients have read (`read`) and written (`written`)",
		read: func(c *counted, put put) {
			for name, use := range c.clients {
				put(float64(use.Read), name, "read")
				put(float64(use.Written), name, "written")
			}
		}},
	{name: "nfsrdmad_client_connections", help: "Connections of a client that are open.", kind: gauge, labels: []string{"client"},
		meaning: "connections of the clients that are open now",
		read:    ofClients(func(c *clientUse) float64 { return float64(c.Connections) })},
}

// ofExports returns a read function with the values of each export's account.
func ofExports(values func(*export.Account, put)) func(*counted, put) {
	return func(c *counted, put put) {
		for _, e := range c.accounts {
			a := e.Account()
			values(&a, func(v float64, labels ...string) { put(v, append([]string{e.Name}, labels...)...) })
		}
	}
}

// ofClients returns a read function with one value for each named client, and one for the others.
func ofClients(value func(*clientUse) float64) func(*counted, put) {
	return func(c *counted, put put) {
		for name, use := range c.clients {
			put(value(use), name)
		}
	}
}
