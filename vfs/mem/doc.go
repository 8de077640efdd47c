// Package memfs is a file system in memory: the cheapest complete backend of
// the seam vfs. It carries benchmarks and tests, and serves scratch space. The
// directory is called mem; the package is not, because payload memory is
// (github.com/nfsrdmad/nfsrdmad/mem).
//
// It judges permissions itself, as POSIX and Linux do: owner, group and
// supplementary groups, sticky directories, set-group-id directories, set-id
// bits that go with a write or a change of ownership, and everything for user
// 0. Directory cookies are a sequence of the directory, so a listing goes on
// whatever is added and removed. Data is kept in chunks and holes take no
// space.
//
// Nothing ever waits for anything but a short critical section, so Op.Try is
// always answered. The exceptions are asked for: Stall makes calls wait, Fail
// and FailSync make them fail, and with Options.Unsynced the file system
// forgets at Crash whatever was written and never synced.
//
// Claims of byte ranges stand against those of another process only, which a
// test plays with ForeignClaim. Clones share no storage. It outlives no process.
package memfs
