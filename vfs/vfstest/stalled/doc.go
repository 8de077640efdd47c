// Package stalled is for tests of what a process does while a file system does
// not answer. It mounts a real one: FUSE, served by a process of its own that
// holds requests back on demand. Every operation then hangs in the kernel, and
// goes on where it hung. NewDisk puts ext4 on it, which hangs wherever it needs
// its disk.
//
// A test whose process may hang runs in a process of its own, with a watchdog:
// Alone. Otherwise a fault ends the test run, not the test.
//
// Mounting takes user 0 and /dev/fuse; tests are skipped without. The package
// has an init function: a test binary that imports it can be the serving
// process.
package stalled
