// Package vfstest is the acceptance suite of vfs.FileSystem: what a file
// system behind the seam must do, as named tests that each implementation runs
// on itself.
//
//	func TestSuite(t *testing.T) {
//		vfstest.Run(t, func(t *testing.T) vfs.FileSystem { return mine(t) }, vfstest.Options{})
//	}
//
// It knows POSIX, the rules that NFS puts on top of it (RFC 1813 §4.4) and the
// seam's own contract. Each test runs twice: with every call asked to block if
// it must, and with every call tried without blocking first, where an answer
// must be the same and a refusal must have done nothing.
//
// It does not prove that data outlives a power cut, except for file systems
// that can be cut (Options.Crash), and measures nothing.
package vfstest
