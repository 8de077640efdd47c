// Package stalled is for tests in which a file system does not answer. It mounts a FUSE file
// system. A separate process serves it and delays requests on demand: system calls then hang in
// the kernel, and continue later. It can also answer a request with an error. NewDisk makes an ext4 file system whose disk is a file in the
// FUSE file system. The ext4 file system hangs whenever it needs its disk.
//
// A test whose process may hang runs in a separate process with a watchdog (Alone).
// Otherwise a fault would stop the whole test run.
//
// Mounting needs user 0 and /dev/fuse; without them tests are skipped. If the environment variable
// of serve.go is set, the package's init function turns the test binary into the serving process.
package stalled
