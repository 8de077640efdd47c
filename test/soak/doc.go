// Package soak runs one daemon for hours or days, while honest clients work and its environment
// fails in every way. No gate runs it.
//
//	go test -tags soak ./test/soak -v
//	go test -tags soak -timeout 3h ./test/soak -v -for 2h
//	make soak FOR=2h
//
// It needs user 0, /dev/fuse, loop devices, e2fsprogs and rpcbind. The run has mount and network
// namespaces of its own. The seed (-seed) determines the events; the machine determines the time
// of each.
//
// # What happens
//
//   - The daemon is built with the race detector.
//   - Peers of every kind of package hostile come and go, three kinds at a time: they flood, are
//     slow, late, deaf or silent, hoard, and send messages that no client sends; from one
//     address, from many, and from the honest clients' own.
//   - A disk of package disk stalls, fills up, or fails. A disk that failed is removed while the
//     daemon runs, and another one is exported by the same name.
//   - The daemon gets SIGHUP, once or three times in a row, with exports that are new, removed,
//     or have other options. One of them changes while clients work on it.
//   - rpcbind starts, answers nothing, and is killed. The directory service, simulated by a
//     getent(1), answers, answers late, answers nothing, and crashes.
//
// Honest clients of NFSv3, 4.0, 4.1 and 4.2, over TCP and over RDMA, work on files of their own:
// they come, open, lock, write, read, resize, rename, remove, and go; most end their sessions,
// some do not.
//
// # What must hold
//
//   - The daemon reports no race, no panic and no fault of its own, and ends in order.
//   - Each call of an honest client is answered within three minutes. That detects a hang; the
//     test reports times, and does not judge them.
//   - A client reads the content that it wrote, and the files have that content at the end. The
//     disk that fails is exempt: package disk judges the fate of data there.
//   - When everything rests, the daemon's goroutines, descriptors and resident memory exceed
//     those at the first rest by a quarter and a fixed amount at most. The first one comes after
//     ten minutes, or a third of a shorter run; the others each hour, and at the end.
package soak
