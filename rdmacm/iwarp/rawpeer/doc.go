// Package rawpeer is an iWARP peer for tests that says exactly what it is told
// to: bytes on a TCP connection, in either role. It knows the wire formats but
// none of the rules, so that it can break each of them.
//
// Every wait has a deadline far beyond what a test needs; when it passes, the
// test fails.
package rawpeer
