// Package rawpeer is an iWARP peer for tests. It sends exactly the bytes that the test
// wants on a TCP connection, in either role. It knows the wire formats but none of the
// rules, so that a test can break each of them.
//
// Every wait has a deadline far beyond the time that a test needs; when it passes, the test
// fails.
package rawpeer
