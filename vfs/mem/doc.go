// Package memfs is a file system in memory: a small but complete implementation of package vfs,
// for benchmarks, tests and scratch space. The directory is called mem and the package memfs,
// because package mem (github.com/nfsrdmad/nfsrdmad/mem) is the payload memory.
//
// It checks permissions itself, as POSIX and Linux do: owner, group and supplementary groups,
// sticky directories, set-group-id directories, and set-id bits that a write or a change of
// ownership clears. User 0 may do everything, except to execute a file without an execute bit.
// Each directory numbers its entries in sequence, and these numbers are the cookies, so a listing
// continues correctly after entries are added or removed. Data is kept in chunks, and holes take
// no space.
//
// Calls wait only for short critical sections, so calls with Op.Try always get an answer. Tests
// can change that: Stall makes calls wait, Fail and FailSync make them fail, and with
// Options.Unsynced a Crash loses the data that was written and not synced.
//
// Claims of byte ranges conflict only with those of another process, which a test simulates with
// ForeignClaim. Clones share no storage. All content is lost when the process ends.
package memfs
