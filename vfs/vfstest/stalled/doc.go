// Package stalled helps to test a process while a file system does not answer. It mounts
// a FUSE file system. A separate process serves it and holds requests back on demand:
// operations then hang in the kernel, and later continue. NewDisk makes an ext4 file
// system on it, which hangs whenever it needs its disk.
//
// A test whose process may hang runs in a separate process with a watchdog (Alone).
// Otherwise a fault would stop the whole test run.
//
// Mounting needs user 0 and /dev/fuse; without them tests are skipped. The package has an
// init function that turns the test binary into the serving process, if the environment
// asks for it.
package stalled
