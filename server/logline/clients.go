package logline

// Lines about clients: mounts, Kerberos, groups of users, the grace period, opens and locks.
var (
	SlowCall = warn("a call took long",
		"`waited_for` names what the call waited for longest, in the words of [`nfsrdmad calls`](#who-is-connected-what-is-open-what-waits): if that is `disk`, see whether the disk of `export` is slow or broken (`iostat -x`, the kernel's log). The key `slow_call` sets the limit")
	MountRefused = warn("mount refused",
		"`reason` names the option of the export that refused the mount, or says that no export has the path; `remedy` says what to do; [configuration.md](configuration.md#export) explains the options. With version 4 `path` is the first name of the path that the client cannot see; it is empty if no export serves the client")
	NoSuchExport = info("no export has the name that a client looked up",
		"nothing, unless a mount with version 4 failed just then: in that case the path in the mount command is wrong")
	FlavorRefused = info("flavor refused",
		"nothing, if the client then uses another flavor: clients try one flavor after the other. If the mount fails, mount with a flavor of the export's option `sec`")
	PrincipalRefused = warn("principal without an account refused",
		"make a user for the `principal`, name one with `kerberos.principals`, or leave `require_account` out of the export's options")
	KeytabUnread = warn("cannot read the keytab any more: the keys read before stay in use",
		"correct what `error` says. Until the daemon ends, it uses the keys that it read from the file before")
	KeytabExposed = warn("other users can read the keytab",
		"`chmod 600` the keytab. If other users of the machine may have read it, make new keys (`ktadd`): with the old keys these users can act as the server, and as any caller")
	KeytabUnfit = warn("clients cannot use Kerberos, because the keytab cannot be used: correct the key kerberos.keytab",
		"correct `kerberos.keytab`: the file that it names must have a key of `nfs/HOST@REALM`")
	RealmUnknown = warn("cannot find the default realm: name it with the key kerberos.realm",
		"set `kerberos.realm` in the configuration")
	GroupsUnknown = warn("cannot look up the groups of a user: calls of that user to exports with manage_gids wait, unless the last known groups are still valid",
		"see what holds up the services of the lines `passwd` and `initgroups` or `group` of `/etc/nsswitch.conf`: try `getent passwd UID` and `getent initgroups NAME`")
	GraceBegan = info("grace period started: clients from before the restart can reclaim opens and locks, and new ones wait",
		"nothing: after a restart, clients of version 4 reclaim the opens and locks that they held before, and until the grace period ends the daemon grants no new locks and opens that may conflict with a reclaim. `waited_for` names the clients that may reclaim")
	GraceEnded = info("grace period ended",
		"nothing: `without` names the clients that could reclaim and did not come back; `missing` is their number. The grace period ends early when all have come back")
	StateTaken = warn("a client lost its opens and locks",
		"`reason` says why, `remedy` says what to do. Programs on that client get I/O errors for the files that they had open")
	OpensTaken = warn("took open files back from a client that has more than its share",
		"`client` is the one that lost `files` open files, because it had most at the address and in the network that had most, and a client at the address `for` could open none. Raise `memory.state` or `LimitNOFILE`, or find the program that opens so many files. Programs on `client` get I/O errors for these files")
	StateFull = warn("a client may not open or lock more: its share of the memory for opens and locks is used up",
		"raise `memory.state`, or find the program on `client` that opens or locks so many files: `nfsrdmad clients`. `opens`, `locks` and `bytes` are what all clients hold. There is one line a minute")
	SameName = warn("two clients have one name, and different users: the second waits until the first is gone",
		"the fields `client` and `first` have the addresses. Give each client a host name of its own, or the option `nfs4_unique_id`: [mounting.md](mounting.md#when-it-fails). Until then the second client has to wait as long as the first client is active. With `sec=sys` both are at one address, for example behind an address translator; with Kerberos they have different principals")
	FilesFull = warn("a client may not open more files",
		"raise the limit of open files (`LimitNOFILE=`, `ulimit -n`), or let the client close files. `held` and `limit` are descriptors for files of all exports together; [security.md](security.md#what-a-peer-can-cost) says how many of these one client address may use. There is one line a minute: `lines_left_out` counts the refusals since the line before, and the metric `nfsrdmad_opens_refused_total` counts all")
)
