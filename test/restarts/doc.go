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
// creation, removal and truncation there is a step. The seed selects a step, and the test kills the
// daemon before or after it. So the daemon dies between any two writes of its records: at its
// start, in the grace period, while clients reclaim, and later. If a life does not reach the step,
// the test kills it at the end of the round.
//
// # The clients
//
// Some clients, half of each version, hold exclusive locks: a write lock on a whole file, under
// their own open. Other clients come all the time and are recorded or forgotten, so that the daemon
// keeps writing records.
//
// # What must hold
//
// In each life:
//
//   - a client may claim each lock that the daemon granted it, unless a whole grace period has passed
//     in which the client did not claim it;
//   - until the client has claimed the lock, no other client gets it before grace is over;
//   - after the client has claimed the lock, no other client gets it before the client gives it back
//     or has been silent for a lease.
//
// This process judges by its own clock whether a grace period or a lease may have ended. So a slow
// machine excuses more, but never fails the test.
package restarts
