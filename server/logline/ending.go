package logline

// Lines about connections, faults and the end of the daemon.
var (
	AcceptFailed = warn("cannot accept a connection; the daemon goes on accepting others",
		"if `error` says that too many files are open, raise `LimitNOFILE=` in the unit (`ulimit -n`)")
	ConnectionRefused = warn("connection refused",
		"`reason` says why: `address_full`, `full`, `crowded` and `evicted` mean that there are too many connections: see which clients have them, and `connections` and `connections_per_client` in [configuration.md](configuration.md#limits). `slow_setup` and `nothing_heard` mean that a peer connected and did not complete the set-up or its first message")
	ConnectionEnded = info("connection ended",
		"as in the row above")
	CallFault = fault("a call ended in a fault of the server: please report this line and its stack",
		"report it as a bug, with the stack that follows. The client got an error (SYSTEM_ERR), and the daemon goes on with all other calls. The log has the first fault at each place in the code; the metric `nfsrdmad_panics_total` counts all faults")
	OwnCallUnanswered = fault("a call that the daemon made to itself was not answered: systemd restarts it if that goes on",
		"the watchdog's check failed: with `WatchdogSec=` the daemon calls itself at each of its addresses, and one call got no answer (see [With systemd](#with-systemd)). If a firewall on this machine drops packets to the address that the line names, correct the firewall. Otherwise report the line as a bug, with the trace that follows when systemd ends the daemon")
	Draining = info("draining",
		"nothing: the daemon has got SIGTERM, and answers the calls in progress")
	CallsInProgress = warn("calls are still in progress: their clients will repeat them",
		"check the file system of the exports that the line names: it did not answer within `drain_timeout`")
	CallsElsewhere = warn("calls are still in progress outside of any export: their clients will repeat them",
		"nothing: clients make these calls again")
	ConnectionsCut = info("closed connections whose clients did not disconnect in time",
		"nothing: the clients did not take their last answers, or did not close their connections, in time; they connect again")
	Uncommitted = info("data was written and not committed: its clients will send it again",
		"nothing: clients send it again")
	ExportUnclosed = fault("cannot close an export",
		"see whether its disk works")
	StepLate = warn("a step of the shutdown did not end in time: the daemon goes on without it",
		"see [Signals](#signals): the line names the file system, disk or service that does not answer")
	Stopped = info("stopped",
		"nothing: the daemon has ended in order")
	StoppedUnfinished = fault("stopped, but some steps of the shutdown did not finish",
		"see [Signals](#signals): the line names the file system, disk or service that does not answer")
	SetupFault = info("connection set-up failed by a fault",
		"nothing, if it is rare: a client or the network ended a connection in the middle of a message, or the client sent bytes that are no message. `because` says what happened, `remedy` what to look for if the line is frequent; the client connects again. If `because` says that the peer speaks another protocol, the client uses the port of the other transport, or no NFS at all: `remedy` has the mount options. Such a connection stays open for a second, so that the client does not come back thousands of times a second")
	ClosedFault = info("connection closed by a fault",
		"as in the row above")
	Kerberos = warn("Kerberos: ",
		"the daemon refused a client's context or call: see `reason`, `cause` and `remedy`")
)
