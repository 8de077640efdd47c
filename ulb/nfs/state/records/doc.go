// Package records stores the records of NFSv4 clients (state.Records) in a local file: which
// clients may hold state, and how often the server was started. The file is an append-only log
// (docs/internals/records.md).
//
// One server at a time owns the file, and locks it while it is open. A server that shares its
// clients with another one needs its own implementation of state.Records.
package records
