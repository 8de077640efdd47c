package vfstest

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Options say what the file system under test can do. What it cannot do is
// not tested, or tested to be refused.
type Options struct {
	// CanSwitchUsers: the file system judges any credential. Without it,
	// every call is made as Self.
	CanSwitchUsers bool
	// Self is the credential that owns the root directory; nil is user 0,
	// group 0.
	Self *vfs.Cred
	// NoOwnership: files have owners and modes, but not necessarily those that
	// they were given, and no caller is refused anything.
	NoOwnership bool
	// Devices: user 0 may make block and character devices.
	Devices bool
	// SpecialFiles: sockets and FIFOs can be made.
	SpecialFiles bool
	// Exclusive: exclusive creations are told apart by their verifiers, after
	// a restart too where there is Restart.
	NoExclusive bool
	// NoSync: data cannot be put on stable storage, and a write may be answered
	// as less stable than asked.
	NoSync bool
	// NoTimes: times cannot be set.
	NoTimes bool
	// Sparse is the largest offset at which the suite may write, 0 for no
	// limit: file systems that keep holes as zeros have one.
	Sparse uint64
	// Entries is how many names large directories get, 0 for 10,000.
	Entries int
	// Restart ends fs and returns the same file system as the next process
	// would find it. nil: a restart loses everything.
	Restart func(t *testing.T, fs vfs.FileSystem) vfs.FileSystem
	// Crash is a Restart that loses what was not synced.
	Crash func(t *testing.T, fs vfs.FileSystem) vfs.FileSystem
	// Birth: the time of a file's creation is known.
	Birth bool
	// Foreign starts another process of the machine that claims ranges of the
	// file that is h and has that path below the root. nil: there is none.
	Foreign func(t *testing.T, fs vfs.FileSystem, h vfs.Handle, path string) ForeignClaim
	// Skip names tests that the file system is known to fail, and why.
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

var groups = [][]Test{createTests, openTests, claimTests, sparseTests, copyTests, xattrTests, lookupTests, attributeTests, accessTests, lockMarkTests, ioTests, readDirTests, renameTests,
	linkTests, changeTests, handleTests, stressTests, crashTests, modelTests}

// Run runs the suite. New makes an empty file system for each test; what New
// made is closed by Run.
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
