// Package soak has one daemon live through days: whatever may happen around it happens, for as long
// as one likes, while honest clients work. No gate runs it.
//
//	go test -tags soak ./test/soak -v
//	go test -tags soak -timeout 3h ./test/soak -v -for 2h
//	make soak FOR=2h
//
// It needs user 0, /dev/fuse, loop devices, e2fsprogs and rpcbind. The run has mount and network
// namespaces of its own. The seed (-seed) draws what happens; when each thing happens is the
// machine's.
//
// # What happens
//
//   - The daemon is built with the race detector.
//   - Peers of every kind of package hostile come and go, three kinds at a time: they flood, are
//     slow, late, deaf or silent, hoard, and send what no client sends; from one address, from many,
//     and from the honest clients' own.
//   - A disk of package disk stalls, fills up, or fails. One that failed is taken out while the
//     daemon goes on, and another one is exported by the same name.
//   - SIGHUP comes, one or three at a time, with exports that are new, are gone, or have other
//     options. One of them changes while clients work on it.
//   - rpcbind begins, answers nothing, and is killed. The directory service, which getent(1) stands
//     for, answers, answers late, answers nothing, and crashes.
//
// Honest clients of NFSv3, 4.0, 4.1 and 4.2, over TCP and over RDMA, work on files of their own: they
// come, open, lock, write, read, resize, rename, remove, and go, most with a word and some without.
//
// # What must hold
//
//   - The daemon reports no race, no panic and no fault of its own, and ends in order.
//   - Each thing that an honest client asks for is answered within three minutes. That bounds a hang;
//     how long things took is reported, and not judged.
//   - What a client reads is what it wrote, and so is what lies in the file at the end. The disk that
//     fails is exempt: package disk judges what becomes of data there.
//   - When all rests, the daemon has as many goroutines and descriptors, and as much resident memory,
//     as at the first rest, within a quarter and a little. The first one comes after ten minutes, or
//     a third of a shorter run; the others each hour, and at the end.
package soak
