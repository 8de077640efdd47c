package config

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/providers"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/identity"
)

// usualBusyPoll is about three times as long as a client on the same machine or network takes
// from a reply to its next call.
const usualBusyPoll = Duration(100 * time.Microsecond)

// leastDeviceMemory is the smallest rnic.device_memory, in bytes. It is enough for some connections
// with default settings.
const leastDeviceMemory = 4 << 20

// Auto is the value of RNIC.Provider for the software RNIC, together with RDMA devices if the
// machine has some. OwnersNumbers and OwnersNames are the values of NFS.Owners.
const (
	defaultKeytab = "/etc/krb5.keytab"
	Auto          = "auto"
	OwnersNumbers = "numbers"
	OwnersNames   = "names"
)

// The lease time of NFSv4. The longest grace time is longestLease, too. The shortest lease time is so
// long that a client does not lose its locks if its network fails for a moment.
const (
	usualLease    = Duration(90 * time.Second)
	shortestLease = Duration(5 * time.Second)
	longestLease  = Duration(time.Hour)
)

// settings has all keys of the configuration, in their order in the documentation. Config.Check
// checks them in this order.
var settings = []setting{
	listening("rdma", DefaultRDMAPort,
		"address to serve RDMA on: ADDR:PORT, :PORT or none; repeatable (default :20049)",
		"addresses to serve RDMA on: `\"IP:PORT\"`, `\"[IPv6]:PORT\"`, `\":PORT\"` for every address of both families; or `[\"none\"]`"),
	listening("tcp", DefaultTCPPort,
		"address to serve TCP on: ADDR:PORT, :PORT or none; repeatable (default :2049)",
		"addresses to serve TCP on, in the same form. At least one of `rdma` and `tcp` must have an address. They cannot use the same port of an address, because RDMA is carried in TCP"),
	{key: "rdma_versions", usual: "`" + numbers(usualRDMAVersions) + "`", check: checkRDMAVersions,
		flag:    "versions of RPC-over-RDMA to speak: 1, or 1,2 (default " + strings.Trim(numbers(usualRDMAVersions), "[]") + ")",
		meaning: "the versions of RPC-over-RDMA that the daemon speaks over RDMA: `[1]` or `[1, 2]`. Version 1 is what Linux's clients speak. Version 2 is a draft, which a client has to propose: [version2.md](version2.md) says who does, and what it gives. Clients of version 1 notice no difference"},
	text("state_dir", DefaultStateDir, "directory for data that survives a restart (default "+DefaultStateDir+")",
		"the directory for data that outlives the process: the key that signs file handles, and the index of handles if the kernel makes none. If it is lost, clients must mount anew. Only one daemon can use it at a time. The daemon does not start if the directory lies within an export, if an export lies within it, if it belongs to another user than the daemon's or root, or if other users may write to it"),
	choice("log_level", []string{"info", "debug", "warn", "error"},
		"debug, info, warn or error (default info)",
		"`debug`, `info`, `warn` or `error`. The daemon does not log each call, at any level. A level that `nfsrdmad log-level` has set stays in force at a reload, unless this key has changed in the file").reloaded(),
	choice("log_format", []string{"text", "json"}, "",
		"`text` or `json`, on standard error"),
	{key: "metrics", usual: "none", check: checkMetrics, reloads: true,
		meaning: "`\"HOST:PORT\"` of an HTTP endpoint `/metrics` for Prometheus, such as `\"127.0.0.1:9427\"`. It has no access control: keep it on loopback or a management network. [metrics.md](metrics.md) lists the metrics"},
	{key: "status_page", usual: "none", check: checkStatusPage, reloads: true,
		meaning: "`\"IP:PORT\"` of a [page for a browser](running.md#a-page-for-a-browser) that shows clients, exports, waits and plots, such as `\"127.0.0.1:9428\"`. It has no login, so the address must be a loopback address. Every user of this machine can read it"},
	{key: "status_page_open", usual: "`false`", reloads: true,
		meaning: "whether `status_page` may be another address than loopback. Every machine that reaches the address can then read the names of clients, exports and files"},
	{key: "admin_socket", usual: "`admin.sock` in the state directory", check: checkAdminSocket,
		meaning: "the Unix socket at which the daemon answers the commands of the administrator, such as `nfsrdmad clients` ([running.md](running.md#who-is-connected-what-is-open-what-waits)): an absolute path, or `\"none\"`. Only root and the daemon's own user can use it. If the daemon cannot make the socket, it serves without it, and logs why"},
	{key: "rpcbind", usual: "`true`",
		meaning: "whether to register NFS, MOUNT and the locks of version 3 with rpcbind, if it runs, so that `showmount -e`, mounts without `port=` and [locks with version 3](mounting.md#locks-with-version-3) work"},
	{key: "strict", usual: "`false`",
		meaning: "whether the daemon refuses to start if it cannot open the directory of every export. Otherwise it starts if it can open one of them, and tries again every minute to open the others. For a directory that has not answered, for example because a disk is slow, the start waits if no other export can be served, or if this key is `true`"},
	timeout("drain_timeout", 30*time.Second,
		"how long the daemon waits for calls in progress after SIGTERM. It ends at most two seconds later, even if a file system or disk does not answer: see [running.md](running.md#signals)").reloaded(),
	number("busy_poll", usualBusyPoll, 0, Duration(time.Millisecond),
		"how long the daemon polls for the next call of a client that makes one call at a time, before it sleeps; with `\"0s\"` it does not poll. With polling such a client is served up to twice as fast. A poll takes no more processor time than a sleep and a wake-up, but keeps a processor busy while it lasts. It ends early when the daemon has other work. Unsuccessful polling uses at most a sixteenth of one processor in total. On a machine with one processor the daemon does not poll"),
	number("slow_call", Duration(30*time.Second), 0, Duration(time.Hour),
		"a call that takes the server longer gets a line in the log when it ends, with what it waited for longest; with `\"0s\"` none does. Calls that need no thread of their own are not measured. A call that has not ended is in `nfsrdmad calls`").reloaded(),

	number[Size]("memory.ceiling", 256<<20, 16<<20, 1<<40,
		"the limit for all connections together; at most the memory of the machine or of the process's control group. If there are several exports, the calls of one file system use at most half of what the calls of other file systems leave free. So a file system that does not answer leaves half of the memory to the others, and a second one leaves half of that. Of what the calls of a file system may use, one client address never uses more than nine sixteenths, so with several exports some 28% of this number. Calls in progress, and replies that clients have not read, may occupy another quarter of this number, in addition to payload memory (see [security.md](security.md#what-a-peer-can-cost))"),
	ranged("memory.connection", "half of the ceiling",
		func(c *Config) (usual, least, most Size) { return c.Memory.Ceiling / 2, 4 << 20, c.Memory.Ceiling },
		"the limit for one connection; at least 4M. A peer that stalls occupies no more memory than this"),
	// With the usual ceiling, one client can have 100,000 files open.
	ranged("memory.state", "two and a half times the ceiling",
		func(c *Config) (usual, least, most Size) { return min(c.Memory.Ceiling*5/2, 1<<40), 4 << 20, 1 << 40 },
		"memory for the state of NFSv4 clients, in addition to payload memory: three eighths of it for opens and locks, three eighths for sessions and the replies that they keep, and a quarter for Kerberos contexts of 8K each. Clients share the memory for opens and locks, and that for sessions, by the [rule for shares](security.md#the-rule-for-shares): the clients of one address may use half of it if no others need it. An open file takes about 1.2K, a locked byte range 350 bytes; so with the usual `640M` one address can have 100,000 files open. If a client needs more, and its address has most of the memory, it gets an error (NFSv4.0: NFS4ERR_RESOURCE, later: NFS4ERR_SERVERFAULT). Otherwise it waits until something is closed or taken from others; with 4.0 it gets the error then, too, unless the daemon is about to take state from other clients. The log has the line `a client may not open or lock more`"),
	number[Size]("memory.replies", 64<<20, 1<<20, 1<<40,
		"memory of the reply cache, in addition to payload memory. It keeps the replies to calls that change something, so that a repeated call of NFSv3 or 4.0 is answered and not executed again. A reply takes some 500 bytes. The last replies of each connection, as many as it may have calls in progress (128 over TCP, `credits` over RDMA), are protected: the daemon forgets them only if no connection has more than these, and then those of the site, the address in it and the connection of this that have most ([security.md](security.md#the-rule-for-shares)). Raise this if `nfsrdmad_replies_forgotten_total{reason=\"young\"}` grows"),

	// Only the software RNIC uses these two.
	choice("rnic.crc", []string{"peer", "on", "off"}, "",
		"whether the software RNIC asks for a CRC32C on each frame (RFC 5044 §4.4): `on`, `off`, or `peer`, which leaves the decision to the peer. If either side asks, both sides use CRCs. Linux's siw does not ask"),
	{key: "rnic.fpdu", usual: quoted("auto"), check: checkFPDU,
		meaning: "the size of the frames that the software RNIC sends. With `auto` they are as large as the standard allows, which is cheapest for peers in software, or, with CRCs, as large as a TCP segment. With `mss` each frame fits into a TCP segment, which adapters in hardware may require. Otherwise, a number of bytes from 128 to 64768"},
	choice("rnic.provider", slices.Concat([]string{Auto}, providers.Names()),
		"provider of RDMA: auto, verbs (RDMA devices alone) or iwarp (the software RNIC alone)",
		"the provider of RDMA connections. `iwarp` is the software RNIC, which needs no device. `verbs` uses the machine's RDMA devices, through librdmacm and libibverbs: see [devices.md](devices.md). `auto` is the software RNIC, and also each device other than siw, if the program was built for devices and the libraries are installed; a log line says which devices are used").flagged("rdma-provider"),
	ranged("rnic.device_memory", "the smaller of `memory.ceiling` and the rest of the limit of locked memory after `memory.ceiling` is subtracted; `memory.ceiling` if that rest is less than 4M",
		func(c *Config) (usual, least, most Size) {
			usual = c.Memory.Ceiling
			if left := Size(min(Memlock(), 1<<40)) - c.Memory.Ceiling; left >= leastDeviceMemory {
				usual = min(usual, left)
			}
			return usual, leastDeviceMemory, 1 << 40
		},
		"memory for the messages of all connections over RDMA devices, in addition to payload memory; at least 4M. It is locked (`ulimit -l`, `LimitMEMLOCK=` in the unit). A connection uses (`credits` + 40) times `inline`, and 128K, as long as it exists, and more while its calls keep more messages; the connections of one client address never use more than nine sixteenths, and less if other addresses use some ([security.md](security.md#the-rule-for-shares)). If too little is left for a new connection, the daemon refuses it with a log line, and ends another connection over which no call for an export has come yet. The software RNIC does not use this memory"),
	number("rnic.credits", 128, 1, 4096,
		"the number of calls of one RDMA connection that may be in progress; 16 until its client has made a call that an export serves"),
	{key: "rnic.inline", usual: quoted("4K"), check: checkInline,
		meaning: "inline threshold: the largest message sent without chunks. A multiple of 1K, from 1K to 256K; the peer may ask for less"},

	optional("limits.connections", 1, 1<<20, "what open files allow, 32768 at most",
		"the number of connections at a time, over both transports together. When it is reached, a new connection replaces another one, or is refused: see [security.md](security.md#what-a-peer-can-cost). The limit of open files (`ulimit -n`, `LimitNOFILE=` in the unit) is divided: 64 descriptors are reserved for the daemon, and a sixteenth, but at most 1024, for calls in progress. Connections have half of the rest, or up to three quarters if this key asks for more, and files have what is left; all exports share it, see [security.md](security.md#what-a-peer-can-cost). If this key asks for more than that, the daemon uses a lower number, and a log line says so"),
	optional("limits.connections_per_client", 1, 1<<20, "half of `connections`",
		"the number of connections at a time from one client address (IPv6: from one /64). With the default no address can use all connections, and 1,000 mounts with `nconnect=16` behind one address stay below the limit. If a reload lowers it, the connections of an address that has more stay open, but each new one from there replaces one of them, or is refused").reloaded(),
	timeout("limits.setup_timeout", census.DefaultSetupTimeout,
		"how long a client may take to set up an RDMA connection, and then, over either transport, until its first message is complete. At most 1024 set-ups, or a quarter of `connections`, may be in progress; while more than half of that number are, the time limit is a fifth of this"),
	timeout("limits.first_call_timeout", census.DefaultCallTimeout,
		"the daemon ends a connection after this time if no call came over it that names a file or a directory of an export which serves the client. A client that keeps a spare connection, as with `nconnect=`, connects again when it needs it. While fewer than a 64th of `connections` wait for such a call, this time limit and the one for a first message are at least 6 minutes").reloaded(),
	number("limits.calls_in_flight", 128, 1, 1<<16,
		"the number of calls of one TCP connection that may be in progress; when it is reached, the daemon does not read from the connection"),
	timeout("limits.stall_timeout", 30*time.Second,
		"if a peer stops in the middle of a message, does not answer an RDMA Read, or does not read its replies, the daemon ends its connection after this time"),
	{key: "limits.idle_timeout", usual: "none",
		check: func(c *Config) error {
			if c.Limits.IdleTimeout == 0 {
				return nil
			}
			return within(c, "limits.idle_timeout", 0, shortest, longest)
		},
		meaning: "the daemon closes a TCP connection without calls after this time; `\"0s\"` means never, and other values are from `100ms` to `24h`. Linux clients connect again when they need to"},

	{key: "nfs.versions", usual: list(NFSVersions...), check: checkVersions,
		meaning: "the versions of NFS that the daemon serves, in the form of mount's option `vers=`. If a mount names no version, the client uses the highest version that both it and the daemon support"},
	number("nfs.lease_time", usualLease, shortestLease, longestLease,
		"the lease time of NFSv4: how long the opens and locks of a client are safe if the daemon gets no request from it. After that the daemon keeps them until another client asks for a conflicting open or lock, but for a day at most"),
	ranged("nfs.grace_time", "as `lease_time`",
		func(c *Config) (usual, least, most Duration) {
			return c.NFS.LeaseTime, Duration(time.Second), longestLease
		},
		"how long after a start NFSv4 clients may reclaim the opens and locks that they held before, while no other client can get what conflicts with them. It ends early when all these clients are back; from `1s` to `1h`"),
	choice("nfs.owners", []string{OwnersNumbers, OwnersNames}, "",
		"the form in which NFSv4 sends users and groups: `numbers`, which Linux's clients accept without any configuration, or `names`, such as `user@domain`. Callers with Kerberos always get names. A name of more than 128 bytes is sent as a number. From clients the daemon accepts both forms"),
	{key: "nfs.domain", usual: "that of the machine's name, or `" + identity.DefaultDomain + "`", check: checkDomain,
		meaning: "the part of names after the `@`. Clients must have the same domain (`Domain` in `/etc/idmapd.conf`)"},

	text("kerberos.keytab", defaultKeytab, "",
		"the file with the server's keys, for a principal `nfs/HOST@REALM` where HOST is the host name that clients mount. The daemon reads the file again when it changes"),
	{key: "kerberos.realm", usual: "`default_realm` of `/etc/krb5.conf`", reloads: true,
		meaning: "the realm whose principals act as the users of this machine that have the same names"},
	{key: "kerberos.account", usual: quoted("%u"), check: checkAccount, reloads: true,
		meaning: "how this machine names the user of a principal of that realm: `%u` is the principal's name, `%r` the realm, and `%d` the realm in lower case. If `getent passwd` shows users as `joe@ad.example.org`, as on machines that are joined to Active Directory by realmd, write `\"%u@%d\"`"},
	{key: "kerberos.principals", usual: "none", check: checkPrincipals, reloads: true,
		meaning: "the users of other principals, such as `[\"backup/host@EXAMPLE.ORG=backup\"]`. A principal that has no user here acts as the anonymous user, or is refused if the export has the option `require_account`. Write a `\\` before a `/`, `@` or `\\` that is part of a name. The principal `root@REALM` of the realm above is user 0, and acts as user 0 if the export has `no_root_squash`"},

	{key: "export.path", usual: "required", reloads: true,
		meaning: "the directory to export. File systems mounted beneath it are not part of the export, unless it has the option `crossmnt`"},
	{key: "export.name", usual: "the path", reloads: true,
		meaning: "the path that clients mount. File handles depend on it: if you change it, clients must mount anew"},
	{key: "export.options", usual: quoted(usualOptions()), reloads: true,
		meaning: "options from the table below, separated by commas"},
}

// usualRDMAVersions is the default of rdma_versions.
var usualRDMAVersions = []int{1}

// numbers formats numbers as a TOML list.
func numbers(all []int) string { return strings.ReplaceAll(fmt.Sprint(all), " ", ", ") }

// checkRDMAVersions sets the default of rdma_versions, and checks its value. The daemon always speaks
// version 1, because a client that proposes version 2 may fall back to it.
func checkRDMAVersions(c *Config) error {
	const key, remedy = "rdma_versions", "write [1], or [1, 2]"
	v := &c.RDMAVersions
	if len(*v) == 0 && !c.Says(key) {
		*v = slices.Clone(usualRDMAVersions)
	}
	slices.Sort(*v)
	*v = slices.Compact(*v)
	for _, n := range *v {
		if n != 1 && n != 2 {
			return c.badValue(key, n, "there are versions 1 and 2 of RPC-over-RDMA: "+remedy)
		}
	}
	switch {
	case len(*v) == 0:
		return c.badValue(key, "no version at all", remedy)
	case !slices.Contains(*v, 1):
		return c.badValue(key, numbers(*v), "version 1 cannot be left out, because Linux's clients speak no other: "+remedy)
	}
	return nil
}

func checkMetrics(c *Config) error {
	if c.Metrics == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(c.Metrics)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return c.badValue("metrics", strconv.Quote(c.Metrics), "use HOST:PORT such as 127.0.0.1:9427")
	}
	return nil
}

// checkStatusPage wants a loopback address, because the page has no login. It takes no name, because others than the user
// may decide what a name stands for.
func checkStatusPage(c *Config) error {
	const key = "status_page"
	if c.StatusPage == "" {
		return nil
	}
	at, err := netip.ParseAddrPort(c.StatusPage)
	if err != nil {
		return c.badValue(key, strconv.Quote(c.StatusPage), "use IP:PORT such as 127.0.0.1:9428")
	}
	if !at.Addr().Unmap().IsLoopback() && !c.StatusPageOpen {
		return c.badValue(key, strconv.Quote(c.StatusPage),
			"the page has no login, and this address is not loopback: use 127.0.0.1:"+strconv.Itoa(int(at.Port()))+
				", which 'ssh -L' brings to another machine; or set status_page_open = true, if every machine that reaches the address may read it")
	}
	return nil
}

// checkFPDU sets the default of rnic.fpdu, and rejects values that iwarp.ParseFPDUSize will
// reject.
func checkFPDU(c *Config) error {
	f := &c.RNIC.FPDU
	switch *f {
	case "":
		*f = "auto"
	case "auto", "mss":
	default:
		if n, err := strconv.Atoi(*f); err != nil || n < 128 || n > 64768 {
			return c.badValue("rnic.fpdu", strconv.Quote(*f), "use auto, mss, or a number of bytes from 128 to 64768")
		}
	}
	return nil
}

// checkInline sets the default of rnic.inline, and checks its value.
func checkInline(c *Config) error {
	const key = "rnic.inline"
	if err := within[Size](c, key, 4<<10, 1<<10, 256<<10); err != nil {
		return err
	}
	if z := c.RNIC.Inline; z%1024 != 0 {
		return c.badValue(key, z, "use a multiple of 1K")
	}
	return nil
}

func checkVersions(c *Config) error {
	const key = "nfs.versions"
	v := &c.NFS.Versions
	if len(*v) == 0 && !c.Says(key) {
		*v = slices.Clone(NFSVersions)
	}
	for _, word := range *v {
		if !slices.Contains(NFSVersions, word) {
			return c.badValue(key, strconv.Quote(word), "use some of "+strings.Join(NFSVersions, ", "))
		}
	}
	if len(*v) == 0 {
		return c.badValue(key, "no version at all", "name one at least, such as "+strconv.Quote(NFSVersions[0]))
	}
	return nil
}

// checkDomain rejects a domain that has a space, an '@', a ':' or a character other than
// printable ASCII, or is longer than 255 bytes.
func checkDomain(c *Config) error {
	if d := c.NFS.Domain; strings.ContainsFunc(d, func(r rune) bool { return r <= ' ' || r == '@' || r == ':' || r > '~' }) || len(d) > 255 {
		return c.badValue("nfs.domain", strconv.Quote(d), "give a name such as \"example.org\"")
	}
	return nil
}

func checkPrincipals(c *Config) error {
	const key = "kerberos.principals"
	said := make(map[string]bool)
	for _, word := range c.Kerberos.Principals {
		p, user, ok := SplitPrincipal(word)
		switch {
		case !ok || user == "" || !strings.Contains(p, "@"):
			return c.badValue(key, strconv.Quote(word), `write PRINCIPAL@REALM=USER, such as "backup/host@EXAMPLE.ORG=backup"`)
		case said[p]:
			return c.badValue(key, strconv.Quote(word), "name each principal once")
		}
		said[p] = true
	}
	return nil
}

// checkAccount sets the default of kerberos.account, and checks its value.
func checkAccount(c *Config) error {
	a := &c.Kerberos.Account
	if *a == "" {
		*a = "%u"
	}
	if rest := strings.NewReplacer("%u", "", "%r", "", "%d", "").Replace(*a); strings.Count(*a, "%u") != 1 || strings.Contains(rest, "%") {
		return c.badValue("kerberos.account", strconv.Quote(*a), `use "%u" once, and %r or %d for the realm, such as "%u@%d"`)
	}
	return nil
}

// SplitPrincipal splits PRINCIPAL=USER at the last '='. If there is no '=', ok is false.
func SplitPrincipal(word string) (principal, user string, ok bool) {
	i := strings.LastIndexByte(word, '=')
	if i < 0 {
		return "", "", false
	}
	return word[:i], word[i+1:], true
}
