package logline

// Lines about the start, the rpcbind and the state directory.
var (
	Serving = info("serving",
		"nothing: the line lists the addresses, the names of the exports, and their options")
	OpenToAll = warn("every machine that reaches this server can change files of exports",
		"nothing, if that is intended. Otherwise name the clients of the export with `clients=`, or give it the option `ro` or `sec=krb5`")
	ActsAsItself = warn("all callers act as the user of this process, which has no right to act as another user",
		"nothing, if that is intended; else give the daemon the capabilities in [containers.md](containers.md#users)")
	MemoryTooLarge = warn("the limits of memory are larger than the memory of the machine",
		"lower `ceiling`, `state` or `replies` in `[memory]`: if clients make the daemon use all of it, the kernel ends the daemon")
	FewerConnections = warn("limits.connections is too large for the limit of open files (LimitNOFILE=, ulimit -n): the daemon uses a lower number",
		"raise the limit of open files (`LimitNOFILE=`, `ulimit -n`), or lower `connections`")
	DevicesUnused = warn("no RDMA device can be used: RDMA is served by the software RNIC",
		"nothing, if the machine is to have no RDMA device. Else correct what `error` says: see [devices.md](devices.md)")
	MetricsUnserved = warn("cannot listen for metrics: choose another address for the key metrics",
		"choose another address for `metrics`, and reload")
	StatusPageUnserved = warn("cannot listen for the status page: choose another address for the key status_page",
		"choose another address for `status_page`, and reload")
	NoMonitorSocket = warn("cannot open the UDP port of the locks of version 3: a client that crashes keeps its locks, and clients that lock over UDP (macOS, BSD) get none",
		"stop the program that has the port at `address`, and restart the daemon: [mounting.md](mounting.md#locks-with-version-3)")
	Registered = info("registered with rpcbind",
		"nothing: an earlier line said that it was not")
	Unregistered = info("not registered with rpcbind: clients of version 3 have to mount with port=, mountport= and nolock",
		"nothing, if clients mount with `port=` and `mountport=`. Else start rpcbind: once a minute, and at SIGHUP, the daemon asks rpcbind whether its services are registered, and registers those that are not. Then it logs `registered with rpcbind`")
	OtherServerRegistered = warn("another NFS server is registered with rpcbind, and answers: stop it, or set rpcbind = false and mount with port= and mountport=",
		"stop the other server, whose address the line names, or set `rpcbind = false`. The daemon replaces the registration of a server that does not answer, but not that of one that answers")
	LocksRegistered = info("registered the locks of version 3 with rpcbind",
		"nothing: an earlier line said that they were not")
	LocksUnregistered = info("the locks of version 3 are not registered with rpcbind: clients have to mount with nolock",
		"as for `not registered with rpcbind`")
	OtherLocksRegistered = warn("another lock manager (program 100021) or status monitor (100024) is registered with rpcbind, probably that of this machine as a client",
		"on this machine another program serves the locks of version 3, usually its own kernel, because this machine has mounted something by version 3. Mount that with `nolock` or with version 4, and stop `rpc.statd` ([mounting.md](mounting.md#locks-with-version-3)). Clients of this daemon otherwise get no locks over version 3 (100021), or keep them when they crash (100024)")
	LostStateFile = warn("the state directory has lost a file",
		"`effect` says what clients notice. If the file was left out when the directory was moved or restored, stop the daemon, put the file back, and start again")
	StateListUnwritten = warn("cannot write the list of files of the state directory",
		"see that the state directory can be written and has room")
	RecordsDamaged = fault("clients.db is damaged and was set aside: NFSv4 clients cannot reclaim what they had open and locked before this start",
		"programs on clients that had files open or locked get errors. Do not restore the file from a backup: it may name clients that have lost their locks since. See [State directory](#state-directory)")
	RecordsUnwritten = fault("cannot write clients.db: until this works, new NFSv4 clients cannot open files, expired locks are not released, and the grace period does not end",
		"see that the state directory can be written and has room. The daemon tries again by itself")
	RecordsWritten = info("clients.db can be written again",
		"nothing")
	RecordsUnclosed = fault("cannot close clients.db",
		"see whether the disk of the state directory works")
)
