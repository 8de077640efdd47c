// Package hostile attacks the running daemon. Peers hold what they can, do not
// answer, do not read, or ask for what does harm; honest clients go on with their
// work meanwhile, and judges say what they got.
//
// Its tests have the build tag hostile; `make test-hostile` runs them, one after
// the other, on loopback only. They need to be root: the run has mounts of its
// own, and file systems that stall are FUSE. A run takes some four minutes, and
// longer where the daemon fails, because judges wait then.
//
//	go test -tags hostile ./test/hostile -run TestSlowWrites -v
//	go test -tags hostile ./test/hostile -program /usr/local/bin/nfsrdmad -patience 60s
//
// # Parts
//
// A Behaviour is what peers of one kind do. Those that the daemon sends away come
// again after a second. An Attack counts how many stand and how many were sent
// away. Behaviours build their messages from bytes: they share no code with the
// daemon but the codecs of iWARP's headers.
//
// A Stage is a daemon as a process of its own, configured for the test, with three
// exports, with exports on file systems that can stall, and with an honest client
// on each transport. Honest clients have the address 127.0.0.1. Strangers have
// addresses from 127.200.0.1 up; or SharedAddress puts them on the honest
// client's, as behind one translator of addresses. With IPv6 daemons and strangers have
// addresses of Network6, and honest clients ::1. The run has a network namespace of its own.
//
// A StallingFS stalls because the process that serves it is stopped. A request of
// the kernel's then waits where a process can be killed that made it: the end of
// the daemon can be judged.
//
// A transport joins in Transports and Daemon.dial, and brings behaviours of its
// own. A flavour of credentials or a version of NFS brings calls (nfs_call.go), and
// an honest client for the judges.
//
// # What must hold
//
// During every attack:
//
//   - READ: an honest client that is connected reads a byte within 1 s.
//   - arrival: an honest client connects, mounts, looks a name up and reads a byte
//     within 1 s.
//   - NULL, and in some READ, and CREATE with REMOVE: 99 of 100 of an honest client's, one at a
//     time, by a process of its own, are answered within 100 ms, or 20 times what they take at the daemon that is not attacked.
//     With very many locks, so are LOCK with LOCKU, and each of the calls has the bound of a READ.
//   - memory: the daemon's resident memory stays within what it took idle, its
//     ceiling of payload memory, and 64 MiB.
//   - SIGTERM: the daemon ends within its drain_timeout and 2 s.
//
// These are bounds on behaviour, not on the machine's speed. A READ or an arrival
// is judged by the median of several that are asked for at fixed times, whether or
// not the former ones were answered, so that one long stop is seen by all that
// fall into it. Each of them must be answered, too, within Patience. A second daemon
// that is not attacked is asked at the same times. Where its READs take more than
// 50 ms, or took the attacked daemon so long before the attack, the machine is
// slow: the bound is 20 times that instead.
//
// Some attacks have a judge more. 3 MiB: a file is read within 10 s. deadline: RDMA
// connections that never sent an FPDU end within 12 s. idle: 10,000 clients stay,
// and each takes 64 KiB at most. READDIR: as READ.
//
// # What each behaviour did to the first milestone
//
// Measured with the tree of 2026-11-21, on two processors that had other work. "8
// s" means that nothing was answered for as long as the judge waited. With more
// patience, SlowWrites and UnansweredReads went on for 40 s and 30 s, the judge's
// limit then.
//
//	behaviour                               cost a peer                    READ     arrival  resident  SIGTERM
//	Calls: one READ of 0 bytes              the process                    -        -        -         -
//	Calls: one READDIRPLUS, names stall     a processor of the runtime     8 s      8 s      14 MiB    not within 11 s
//	SlowWrites, 256 TCP                     1 MiB payload memory           8 s      8 s      18 MiB    1.0 s
//	UnansweredReads, 256 RDMA, 8 WRITEs     8 MiB payload memory           8 s      8 s      26 MiB    1.0 s
//	UnansweredReads, 256 RDMA, Long calls   8 MiB payload memory           8 s      8 s      27 MiB    4.4 s
//	UnansweredReads, 2 RDMA, after 25 s     128 MiB payload memory         8 s      8 s      86 MiB    1.0 s
//	DeafCalls EXPORT or DUMP, 20 TCP        50 MiB heap and more           killed by the test beyond 1.1 GiB
//	DeafCalls READDIRPLUS, 12 TCP           20 MiB heap                    0.1 s    0.2 s    262 MiB   1.3 s
//	DeafCalls READ, 256 TCP                 payload memory, all of it      8 s      8 s      87 MiB    1.1 s
//	DeafCalls WRITE, 64 TCP, file stalls    4 MiB heap                     0.4 ms   1 ms     289 MiB   not within 11 s
//	DeafRDMA READ, 256                      payload memory, all of it      8 s      8 s      166 MiB   1.4 s
//	DeafRDMA READDIRPLUS, Reply chunk, 64   payload memory, all of it      8 s      8 s      55 MiB    1.0 s
//	DeafRDMA READDIRPLUS, inline, 500       0.8 MiB heap                   0.3 s    0.7 s    417 MiB   1.9 s
//	HalfRecords, 6,000 TCP                  32 KiB heap                    0.4 ms   2 ms     249 MiB   0.5 s
//	SilentSockets, 1,500 on the RDMA port   one of 256 places, for 5 s     0.4 ms   8 s      15 MiB    30 ms
//	SilentSockets, as many as TCP may have  a connection                   0.4 ms   refused  14 MiB    30 ms
//	Setups, 3,000 RDMA                      8 KiB heap, for ever           0.4 ms   2 ms     36 MiB    0.2 s
//	any connections, with 600 descriptors   a descriptor                   refused  8 s      18 MiB    50 ms
//	IdleClients, 10,000 TCP                 9 KiB                          0.5 ms   1.5 ms   100 MiB   0.7 s
//	IdleClients, 10,000 RDMA                10 KiB                         0.6 ms   2 ms     105 MiB   0.5 s
//	ScatteredWrites, 2 TCP, 490 files each  490 descriptors of 1,000       refused  8 s      18 MiB    30 ms
//	RepeatedCalls, 100 stale handles        one search after the other     8 s      8 s      112 MiB   not within 11 s
//	Floods, 12 RDMA, mute                   a receive ring                 never    never    21 MiB    1.1 s
//	QueuedReads, 1 of 5 exports stalls      threads and payload memory     0.4 ms   3 ms     25 MiB    not within 11 s
//	QueuedReads, 2 or 4 of 5 stall          half of payload memory each    8 s      8 s      27 MiB    not within 11 s
//
// # What calls and connections did that share little
//
// Measured with the tree of 2026-11-23, likewise.
//
//	behaviour                               cost a peer                    found
//	Calls: 128 GETATTRs, the file stalls,   700 KiB heap                   1.1 GiB resident, READ 5.5 s, SIGTERM 3.4 s; now
//	1,500 TCP of one address                                               104 MiB, 1 ms, 2.0 s
//	Rounds: GETATTR, TCP, in all places of  a connection                   no client arrives, from privileged ports either
//	one address, or of all
//
// # What NFSv4's behaviours did first
//
// Measured with the tree of 2026-11-22, likewise. A judge that is not named was content.
//
//	behaviour                               cost a peer                    found
//	PingedClients, 4 RDMA, bound again      50 MiB heap, growing           212 MiB resident; now 20 MiB
//	ChunkedCalls, 10 RDMA, 100 READs each   15 MiB heap                    208 MiB resident; now 56 MiB
//	Callbacks40, 4 addresses, 600           64 descriptors                 256 connections for callbacks at a time;
//	descriptors                                                            now 8 at most
//	Hoards of small sessions, 20 TCP        256 bytes were counted         50 MiB resident, growing; now 26 MiB
package hostile
