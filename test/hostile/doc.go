// Package hostile attacks the running daemon. Hostile peers use up all the resources that they can,
// do not answer, do not read, or make harmful calls. Meanwhile honest clients make ordinary calls,
// and judges test that the daemon answers these calls in time.
//
// Its tests have the build tag hostile; `make test-hostile` runs them, one after the other, on
// loopback only. They need root, because the run has mounts of its own, and the file systems that
// stall are FUSE. A run takes about seven minutes, and longer if the daemon fails, because judges
// then wait for answers. The full matrix (NFSRDMAD_TEST_ALL) takes twice as long.
//
//	go test -tags hostile ./test/hostile -run TestSlowWrites -v
//	go test -tags hostile ./test/hostile -program /usr/local/bin/nfsrdmad -patience 60s
//
// # Parts
//
// A Behaviour is what one kind of hostile peer does. A peer stands when it has what it connected
// for, for example a connection or a call under way. A peer that the daemon refuses or disconnects
// connects again after a second. An Attack counts the peers that stand, were refused or were
// disconnected. Behaviours build their messages themselves: the only code that they share with the
// daemon is the codecs of iWARP's headers, and, for NFSv4, those of XDR and of NFSv4's data types.
//
// A Stage is a daemon in a process of its own, configured for the test, with three exports, with
// exports on file systems that can stall, and with an honest client on each transport. Honest
// clients have the address 127.0.0.1. Hostile peers, called strangers, have addresses from
// 127.200.0.1 up, or, with SharedAddress, the honest client's address, as if all were behind one
// NAT gateway. With IPv6, daemons and strangers have addresses of Network6, and honest clients have
// ::1. The run has a network namespace of its own.
//
// A StallingFS stalls while the process that serves it is stopped. A process whose request waits
// for a StallingFS can still be killed, so that the end of the daemon can be tested.
//
// To add a transport, extend Transports and Daemon.dial, and write Behaviours for it. To add a
// credential flavor or a version of NFS, write its calls (nfs_call.go) and an honest client for the
// judges.
//
// # What must hold
//
// During every attack:
//
//   - READ: an honest client that is connected reads a byte within 1 s.
//   - arrival: an honest client connects, mounts, looks a name up and reads a byte
//     within 1 s.
//   - NULL, and in some tests READ, and CREATE with REMOVE: an honest client, in a process of its
//     own, makes these calls one at a time. 99 of 100 are answered within 100 ms, or within 10 R T,
//     if that is longer. T is the time within which 99 of 100 are answered at the control daemon. R
//     is the number of client addresses among which the daemon divides its time, or the number of
//     connections from the client's own address, whichever is larger. The client makes at least
//     N / (10 R) calls, where N is the number of calls of such a client at the control daemon in the
//     same time.
//     With very many locks, this also holds for LOCK with LOCKU, except that no N is compared, and
//     no call may take longer than a READ may take.
//   - memory: the daemon's resident memory stays within the sum of its memory when idle, its limit
//     on payload memory, the memory that it may use for the state of NFSv4 clients (Stage.Held), and
//     64 MiB.
//   - SIGTERM: the daemon ends within its drain_timeout and 2 s.
//
// These limits are about the daemon's behaviour, not about the machine's speed. The judges take the
// median of several READs or arrivals, which begin at fixed times, whether or not the earlier ones
// have ended, so that one long pause delays all that begin during it. Each of them must also end
// within Patience. A second daemon, the control, is not attacked and gets the same calls at the
// same times. If a READ takes more than 50 ms at the control daemon, or took that long before the
// attack, the machine is slow, and a READ may take 20 times that time instead of 1 s.
//
// And for each call of each program, over both transports, from a client and from a peer that no export serves:
//
//   - cost: a daemon with full tables (Crammed) takes about as much processor time for the call as a daemon with
//     empty ones: at most four times that of the other daemon, ten times that of NULL, and that of NULL for each
//     KiB of the reply. A peer that no export serves gets no more bytes than it sends.
//
// Some attacks have a further judge. 3 MiB: a client reads a file within 10 s. deadline: RDMA
// connections that never sent an FPDU end within 12 s. idle: 10,000 clients stay connected, and
// each takes at most 64 KiB. READDIR: it takes no longer than a READ may take.
//
// # Effect of each behaviour on the first version
//
// Measured with the source of 2026-11-21, on two processors that also did other work. "8 s" means
// that no call was answered while the judge waited. With a longer Patience, SlowWrites and
// UnansweredReads blocked clients for 40 s and 30 s, the whole time that the judge waited.
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
// # Effect of peers with many calls or connections of one address
//
// Measured with the source of 2026-11-23, on the same machine.
//
//	behaviour                               cost a peer                    found
//	Calls: 128 GETATTRs, the file stalls,   700 KiB heap                   1.1 GiB resident, READ 5.5 s, SIGTERM 3.4 s; now
//	1,500 TCP of one address                                               104 MiB, 1 ms, 2.0 s
//	Rounds: GETATTR, TCP, in all places of  a connection                   no client arrives, from privileged ports either
//	one address, or of all
//
// # Effect of long compounds
//
// Found with the source of 2026-11-23, on the same machine, which did much other work; measured again
// with that of 2026-11-24, on a quiet machine, over TCP. The numbers are those of calls a second of an
// honest client at the attacked daemon, and at the same time at the control daemon. The last column
// is the time within which 99 of 100 of its calls were answered. A dash means that it was not
// measured. Before the number of workers followed the load of the processors (package rpc, pace),
// LookUps gave 60 of 9432 and 60 ms on the quiet machine.
//
//	behaviour                               judged          found       now            99 of 100
//	Listings, 64 TCP, 4 slots               NULL            5 of 850    214 of 7875    16 ms
//	LookUps, 64 TCP, 16 slots               READ            3 of 91     216 of 10185   18 ms
//	Reopens, 64 TCP, 16 slots               LOCK+LOCKU      2 of 90     83 of 2964     30 ms
//	RepeatedLocks, 15,000 held, 64 slots    LOCK+LOCKU      11 of 61    180 of 2886    18 ms
//	Clones of 4,000 extents, XFS, 16 TCP    CREATE+REMOVE   -           869 of 3035    6 ms
//
// # First effect of the behaviours of NFSv4 peers
//
// Measured with the source of 2026-11-22, on the same machine. Judges that are not named passed.
//
//	behaviour                               cost a peer                    found
//	PingedClients, 4 RDMA, bound again      50 MiB heap, growing           212 MiB resident; now 20 MiB
//	ChunkedCalls, 10 RDMA, 100 READs each   15 MiB heap                    208 MiB resident; now 56 MiB
//	Callbacks40, 4 addresses, 600           64 descriptors                 256 connections for callbacks at a time;
//	descriptors                                                            now 8 at most
//	Hoards of small sessions, 20 TCP        256 bytes were counted         50 MiB resident, growing; now 26 MiB
package hostile
