// Package nfs4 serves NFS version 4. It executes compounds, operation by operation, as it decodes
// them (RFC 8881 §2.3, RFC 7530 §15.2).
//
// The package holds every operation that the minor versions share. Packages nfs40 and nfs41 supply
// the differences as a Minor: how a client is identified, how its requests are sequenced, and the
// operations for both.
//
// A compound passes two stages. Judge examines it before the server reserves memory or fetches data for it.
// Serve runs its operations on the receiving goroutine until one of them has to wait. From that operation
// on, the compound continues on the executor. A finished operation is never executed again. An operation
// that changes something runs only if the reply has room for its largest result.
package nfs4
