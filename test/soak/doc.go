// Package soak runs one daemon for hours or days, while honest clients work and its environment
// fails in every way. It is not part of `make test`.
//
//	go test -tags soak ./test/soak -v
//	go test -tags soak -timeout 3h ./test/soak -v -for 2h
//	make soak FOR=2h
//
// It needs user 0, /dev/fuse, loop devices, e2fsprogs and rpcbind. The run has its own mount and
// network namespaces. The seed (-seed) determines the events; their times depend on the machine.
//
// # Events
//
//   - The daemon is built with the race detector.
//   - Peers of most kinds of package hostile connect and leave, three kinds at a time: they flood
//     the daemon, are slow or late, do not read, do not send, hoard state, or send messages that no
//     correct client sends. They have one address, many, or the honest clients' own.
//   - A disk of package disk stalls, fills up, or fails. A disk that failed is removed while the
//     daemon runs, and another disk is exported under the same name.
//   - The daemon gets SIGHUP, one to three times in a row, with exports that are new, removed, or
//     have other options. One of them changes while clients work on it.
//   - rpcbind starts, stops answering, and is killed. The directory service, which a script in
//     place of getent(1) simulates, answers, answers late, does not answer, or crashes.
//
// Honest clients of NFSv3, 4.0, 4.1 and 4.2, over TCP and over RDMA, work on files of their own:
// they connect, open, lock, write, read, resize, rename and remove files, and disconnect. Most
// end their sessions; some do not.
//
// # What must hold
//
//   - The daemon reports no race, no panic and no fault of its own, and exits with status 0.
//   - Each call of an honest client is answered within three minutes. This detects a daemon that
//     hangs. The test also prints the times of calls, and does not judge them.
//   - A client reads the content that it wrote, and the files have that content at the end. The
//     disk that fails is excepted: package disk tests what happens to data there.
//   - When no event is in progress (at rest), the daemon's goroutines, descriptors and resident
//     memory exceed those at the first rest by at most a quarter and a fixed amount. The first
//     rest is after ten minutes, or after a third of a shorter run. Later rests follow after each
//     hour, or each third of a shorter run, and at the end.
package soak
