// Package restarts kills the daemon again and again while clients of NFSv4.0 and 4.1 hold locks,
// and tests that each new daemon lets them reclaim these locks. A life is the time from one start
// of the daemon to its end.
//
// TestExportThatHangs lets clients restart, and the daemon too, while the file system of one of its exports hangs.
//
// The tests have the build tag hostile, and need user 0 and /dev/fuse:
//
//	go test -tags hostile ./test/restarts -v
//	go test -tags hostile ./test/restarts -v -timeout 1h -restarts 200
//	go test -tags hostile ./test/restarts -v -restarts 1 -seed 30
//
// # The kills
//
// The state directory is a FUSE file system that this process serves. Each write, fsync, rename,
// creation, removal and truncation in it is a step. In most lives the seed selects a step, and the
// test kills the daemon before or after it. So the daemon is killed between any two writes of its
// records: at its start, in the grace period, while clients reclaim, and later. If the seed selects
// no step, or the daemon does not reach it, the test kills the daemon after the clients' calls.
//
// # The clients
//
// Some clients, half of each version, hold exclusive locks: a write lock on a whole file, in
// their own open. Other clients, the crowd, connect all the time, and the daemon records or
// forgets them, so that it keeps writing records.
//
// # What must hold
//
// In each life:
//
//   - a client can reclaim each lock that the daemon granted it, unless a whole grace period has
//     passed in which the client did not reclaim it;
//   - until the client has reclaimed the lock, no other client gets it before the grace period ends;
//   - after the client has reclaimed the lock, no other client gets it before the client unlocks it
//     or has been silent for the lease time.
//
// While an export hangs in which clients have locks, and calls that hang there:
//
//   - the same clients work in another export;
//   - a client that restarts gets its client ID, and its locks in the other export are free;
//   - a silent client loses its locks in the other export, although a call of it hangs;
//   - the grace period ends, and the daemon forgets client IDs that were never confirmed;
//   - the export can be removed, and the daemon ends after SIGTERM.
//
// This process judges by its own clock whether a grace period or a lease may have ended. So on a
// slow machine the test accepts more, but it never fails for that reason.
package restarts
