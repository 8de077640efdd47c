package vfstest

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Options describes the features of the file system under test. If the file system lacks a feature,
// the suite skips the tests of this feature, or checks that the file system refuses calls that need it.
type Options struct {
	// CanSwitchUsers: the file system checks the permissions of any credential. Without it, every
	// call has the credential Self.
	CanSwitchUsers bool
	// Self is the credential that owns the root directory; nil is user 0,
	// group 0.
	Self *vfs.Cred
	// NoOwnership: the file system may ignore owners and modes that callers set, and it denies no
	// permission.
	NoOwnership bool
	// Devices: user 0 may make block and character devices.
	Devices bool
	// SpecialFiles: sockets and FIFOs can be made.
	SpecialFiles bool
	// NoExclusive: the file system has no exclusive creation. Without NoExclusive it must
	// recognize the verifier of a repeated exclusive creation, also after Restart.
	NoExclusive bool
	// NoSync: the file system cannot put data on stable storage. A write may be less
	// stable than requested.
	NoSync bool
	// NoTimes: times cannot be set.
	NoTimes bool
	// Sparse is the largest offset, in bytes, at which the suite may write. 0 means no limit. File
	// systems that store holes as zeros need a limit.
	Sparse uint64
	// Entries is the number of names in large directories. 0 means 10,000.
	Entries int
	// Restart ends fs and returns the same file system as the next process would find it. Tests
	// that need a restart are skipped if Restart is nil.
	Restart func(t *testing.T, fs vfs.FileSystem) vfs.FileSystem
	// Crash is like Restart, but the data that was not synced is lost. Tests that need a crash are
	// skipped if Crash is nil.
	Crash func(t *testing.T, fs vfs.FileSystem) vfs.FileSystem
	// Birth: the file system knows the time of each file's creation.
	Birth bool
	// Foreign starts another process of the machine that claims ranges of the file h.
	// path is the file's path below the root. If Foreign is nil, tests with other
	// processes are skipped.
	Foreign func(t *testing.T, fs vfs.FileSystem, h vfs.Handle, path string) ForeignClaim
	// Skip has the names of tests to skip, because the file system is known to fail them. Each
	// value is the reason for the failure.
	Skip map[string]string
}

// A Test is one test of the suite.
type Test struct {
	Name string
	run  func(x *fixture)
}

// Tests returns the suite, in a fixed order.
func Tests() []Test {
	var all []Test
	for _, g := range groups {
		all = append(all, g...)
	}
	return all
}

var groups = [][]Test{
	createTests, openTests, claimTests, sparseTests, copyTests, xattrTests, lookupTests, attributeTests,
	accessTests, lockMarkTests, ioTests, ioBesideTests, readDirTests, identityTests, renameTests, linkTests,
	changeTests, handleTests, stressTests, stressRemovedTests, crashTests, modelTests,
}

// Run runs the suite. New makes an empty file system for each test. Run closes it.
func Run(t *testing.T, New func(t *testing.T) vfs.FileSystem, opt Options) {
	if opt.Self == nil {
		opt.Self = &vfs.Cred{}
	}
	if opt.Entries == 0 {
		opt.Entries = 10_000
	}
	for _, mode := range []struct {
		name string
		try  bool
	}{{"block", false}, {"try", true}} {
		t.Run(mode.name, func(t *testing.T) {
			for _, test := range Tests() {
				t.Run(test.Name, func(t *testing.T) {
					if why, ok := opt.Skip[test.Name]; ok {
						t.Skip(why)
					}
					x := newFixture(t, New(t), &opt, mode.try)
					test.run(x)
				})
			}
		})
	}
}
