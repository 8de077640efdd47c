// Package vfstest is the acceptance suite of vfs.FileSystem: named tests that each
// implementation runs on itself.
//
//	func TestSuite(t *testing.T) {
//		vfstest.Run(t, func(t *testing.T) vfs.FileSystem { return mine(t) }, vfstest.Options{})
//	}
//
// It tests the rules of POSIX, the rules that NFS adds (RFC 1813 §4.4), and the contract of package
// vfs. Each test runs twice. In the first run every call may block. In the second run every call is
// first made with Op.Try. If that returns ErrWouldBlock, it must have changed nothing, and the call
// is repeated without Op.Try. The tests expect the same results in both runs.
//
// Only for file systems with Options.Crash does it test that data survives a power cut. It does
// not measure performance.
package vfstest
