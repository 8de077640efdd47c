// Package restarts kills the daemon again and again while clients of NFSv4.0 and 4.1 hold locks,
// and judges what each life of the daemon gives them back.
//
// Its test has the build tag hostile, and needs user 0 and /dev/fuse:
//
//	go test -tags hostile ./test/restarts -v
//	go test -tags hostile ./test/restarts -v -timeout 1h -restarts 200
//	go test -tags hostile ./test/restarts -v -restarts 1 -seed 30
//
// # The kills
//
// The state directory is a FUSE file system that this process serves. Each write, fsync, rename,
// creation, removal and truncation there is a step. At a step drawn by the seed the daemon is
// killed, before the step is done or after it: so it dies between any two writes of its records,
// at its start, in the time of grace, while clients claim, and later. A life in which that does
// not come about is killed after everything else was done.
//
// # The clients
//
// Some clients, half of each version, lock files so that no other may: a write lock on the whole
// file, under an open of their own. Others come without end, to be recorded or forgotten, so that
// records are written all the time.
//
// # What must hold
//
// In each life:
//
//   - what a client was answered that it holds, it may claim, unless a time of grace has gone by in
//     which it did not;
//   - until it has claimed, no other client gets that lock before the time of grace is over;
//   - when it has claimed, no other client gets that lock before it gives it back, or has been
//     silent for a lease.
//
// Whether a time of grace or a lease may have gone by is told by this process's own clock. On a
// slow machine more is excused, and nothing fails for that.
package restarts
