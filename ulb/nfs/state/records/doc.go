// Package records keeps the records of NFSv4 clients (state.Records) in a file of this
// machine: which clients may hold something, and how often the server was started. The file
// is a log that is appended to (docs/internals/records.md).
//
// The file belongs to one server at a time: it is locked while it is open. A server that
// shares its clients with another one brings a state.Records of its own.
package records
