package config

import (
	"cmp"
	"slices"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/providers"
)

// settings has all keys of the configuration, in their order in the documentation. Config.Check
// checks them in this order.
var settings = slices.Concat(whereToListen(), daemonSettings, softwareSettings, rdmaSettings, limitSettings, nfsSettings, kerberosSettings, exportSettings)

func whereToListen() (all []setting) {
	for i := range transports {
		all = append(all, listening(&transports[i]))
	}
	return all
}

// usualBusyPoll is about three times as long as a client on the same machine or network takes
// from a reply to its next call.
const usualBusyPoll = Duration(100 * time.Microsecond)

// daemonSettings has the keys for the process as a whole.
var daemonSettings = []setting{
	{key: "state_dir", usual: quoted(DefaultStateDir),
		flag:    "directory that keeps what outlives a restart (default " + DefaultStateDir + ")",
		said:    func(c *Config, word string) { c.StateDir = word },
		check:   func(k *checker) { k.c.StateDir = cmp.Or(k.c.StateDir, DefaultStateDir) },
		meaning: "what outlives the process: the key that seals file handles, and the index of handles where the kernel makes none. If it is lost, clients must mount anew. One daemon at a time has it. It must not lie within an export, nor an export within it, and belong to the daemon's user and be writable by no other: the daemon does not start otherwise"},
	choice("log_level", func(c *Config) *Choice { return &c.LogLevel }, []string{"info", "debug", "warn", "error"},
		"debug, info, warn or error (default info)",
		"`debug`, `info`, `warn` or `error`. No level writes a line per call"),
	choice("log_format", func(c *Config) *Choice { return &c.LogFormat }, []string{"text", "json"}, "",
		"`text` or `json`, on standard error"),
	{key: "metrics", usual: "none", check: checkMetrics,
		meaning: "`\"HOST:PORT\"` of an HTTP endpoint `/metrics` for Prometheus, such as `\"127.0.0.1:9427\"`. Not protected by anything: keep it on loopback or a management network. 16 connections at a time; those that say nothing end after seconds"},
	{key: "rpcbind", usual: "`true`",
		meaning: "register NFS and MOUNT with rpcbind where it runs, so that `showmount -e` and mounts without `port=` work"},
	timeout("drain_timeout", func(c *Config) *Duration { return &c.DrainTimeout }, 30*time.Second,
		"how long SIGTERM waits for calls in progress. The daemon has ended two seconds later, whatever is stuck: see [running.md](running.md#signals)"),
	number("busy_poll", func(c *Config) *Duration { return &c.BusyPoll }, usualBusyPoll, 0, Duration(time.Millisecond),
		"how long the daemon looks for the next call of a client that makes one at a time before it sleeps, from `\"0s\"`, never, to `\"1ms\"`. Such a client is answered up to twice as fast, while one processor is busy. It ends when something else is to be done; peers for which the daemon looks in vain cost a sixteenth of one processor at most, all together. Never on a machine with one processor"),

	number("memory.ceiling", func(c *Config) *Size { return &c.Memory.Ceiling }, 256<<20, 16<<20, 1<<40,
		"for all connections together; 16M at least, and no more than the machine has, or the process's control group. Where there are several exports, the calls of one file system hold half of what the others leave at most: one that stalls leaves half of the memory to the others, a second one half of that"),
	{key: "memory.connection", usual: "half of the ceiling",
		check: func(k *checker) {
			within(k, "memory.connection", &k.c.Memory.Connection, k.c.Memory.Ceiling/2, 4<<20, k.c.Memory.Ceiling)
		},
		meaning: "what one connection may have of it; 4M at least. A peer that stalls pins no more than this"},
	{key: "memory.state", usual: "as the ceiling",
		check: func(k *checker) {
			within(k, "memory.state", &k.c.Memory.State, k.c.Memory.Ceiling, 4<<20, 1<<40)
		},
		meaning: "what clients of NFSv4 hold may take so much, beside payload memory: three eighths of it what they have open and locked, as much their sessions and the replies that these keep, and a quarter the contexts of callers with Kerberos, at 8K each. Of the first two the clients of one address may have as much as they leave to others (see [security.md](security.md#what-a-peer-can-cost)). An open file takes about 1K, a byte range that is locked 300 bytes. Clients that want more wait until something is closed; with 4.0 they get an error, unless the daemon is about to take something from others for them"},
	number("memory.replies", func(c *Config) *Size { return &c.Memory.Replies }, 64<<20, 1<<20, 1<<40,
		"what the daemon remembers of calls that change something may take so much, beside payload memory, so that a call of NFSv3 or 4.0 that comes again is answered and not executed again. A reply takes some 500 bytes. A connection's last replies, as many as it may have calls under way (128 over TCP, `credits` over RDMA), go only when everybody has no more than that: raise this if `nfsrdmad_replies_forgotten_total{reason=\"young\"}` grows"),
}

// leastDeviceMemory is the smallest rnic.device_memory, in bytes. It is enough for some connections
// with default settings.
const leastDeviceMemory = 4 << 20

// rdmaSettings has the keys for RDMA connections of any provider.
var rdmaSettings = []setting{
	choice("rnic.provider", func(c *Config) *Choice { return &c.RNIC.Provider }, slices.Concat([]string{Auto}, providers.Names()),
		"what carries RDMA: auto, verbs (RDMA devices alone) or iwarp (the software RNIC alone)",
		"what carries RDMA. `iwarp` is the software RNIC, which needs no device. `verbs` is the machine's RDMA devices, by librdmacm and libibverbs: see [devices.md](devices.md). `auto` is the software RNIC, and beside it each device other than siw, where the program was built for devices and the libraries are installed; a line in the log says which").flagged("rdma-provider"),
	{key: "rnic.device_memory", usual: "as `memory.ceiling`, or what the limit of locked memory leaves of it",
		check: func(k *checker) {
			usual := k.c.Memory.Ceiling
			if left := Size(min(Memlock(), 1<<40)) - k.c.Memory.Ceiling; left >= leastDeviceMemory {
				usual = min(usual, left)
			}
			within(k, "rnic.device_memory", &k.c.RNIC.DeviceMemory, usual, leastDeviceMemory, 1<<40)
		},
		meaning: "what the messages of all connections over RDMA devices may take, beside payload memory; 4M at least. It is locked in memory (`ulimit -l`, `LimitMEMLOCK=` in the unit). A connection takes (`credits` + 8) times `inline` and 128K, from its beginning to its end; the connections of one client address have at most half of what others leave. A connection that finds too little is refused, with a line in the log, and another one goes that has made no call yet. The software RNIC needs none of it"},
	number("rnic.credits", func(c *Config) *int { return &c.RNIC.Credits }, 128, 1, 4096,
		"calls of one RDMA connection that are served at a time; 16 until its client has made one that an export serves"),
	number("rnic.inline", func(c *Config) *Size { return &c.RNIC.Inline }, 4<<10, 1<<10, 256<<10,
		"inline threshold: the largest message sent without chunks. A multiple of 1K, from 1K to 256K; the peer may ask for less").and(checkInline),
}

// limitSettings has the keys of the table [limits].
var limitSettings = []setting{
	optional("limits.connections", func(c *Config) *int { return &c.Limits.Connections }, 1, 1<<20, "what open files allow, 32768 at most",
		"connections at a time, over both transports together. A newcomer beyond that takes the place of another connection, or is refused: see [security.md](security.md#what-a-peer-can-cost). Of the limit of open files (`ulimit -n`, `LimitNOFILE=` in the unit) 64 are the daemon's, a sixteenth, 1024 at most, is for calls in progress; connections have half of the rest, or up to three quarters if more are asked for here, and files what is left. A larger number than that allows is cut, and a line in the log says so"),
	optional("limits.connections_per_client", func(c *Config) *int { return &c.Limits.PerClient }, 1, 1<<20, "half of `connections`",
		"connections at a time of one client address (IPv6: of one /64). With the default, no address has all, and 1,000 mounts with `nconnect=16` behind one address do not meet it"),
	timeout("limits.setup_timeout", func(c *Config) *Duration { return &c.Limits.SetupTimeout }, census.DefaultSetupTimeout,
		"how long a client may take to set an RDMA connection up, and then, over either transport, until its first message is complete. While more than half of the set-ups that may be in progress (1024, or a quarter of `connections`) are, a set-up has a fifth of this"),
	timeout("limits.first_call_timeout", func(c *Config) *Duration { return &c.Limits.FirstCallTimeout }, census.DefaultCallTimeout,
		"a connection is ended after this if no call came over it that names a file or a directory of an export which serves the client. A client that only has a connection to spare, as with `nconnect=`, connects again when it needs it. While fewer than a 64th of `connections` are like that, this and the time for a first message are 6 minutes at least"),
	number("limits.calls_in_flight", func(c *Config) *int { return &c.Limits.CallsInFlight }, 128, 1, 1<<16,
		"calls of one TCP connection that are worked on at a time; beyond that it is not read from"),
	timeout("limits.stall_timeout", func(c *Config) *Duration { return &c.Limits.StallTimeout }, 30*time.Second,
		"a peer that stops in the middle of a message, does not answer an RDMA Read, or takes no replies loses its connection after this"),
	{key: "limits.idle_timeout", usual: "none",
		check: func(k *checker) {
			if d := &k.c.Limits.IdleTimeout; *d != 0 {
				within(k, "limits.idle_timeout", d, 0, shortest, longest)
			}
		},
		meaning: "a TCP connection without calls is closed after this; `\"0s\"` is none. Linux clients connect again when they need to"},
}

// exportSettings has the keys of each [[export]].
var exportSettings = []setting{
	{key: "export.path", usual: "required",
		meaning: "the directory. File systems mounted beneath it are not part of it, unless the option `crossmnt` is given"},
	{key: "export.name", usual: "the path",
		meaning: "what clients mount. Handles depend on it: a new name means that clients must mount anew"},
	{key: "export.options", usual: quoted(usualOptions()),
		meaning: "as below, separated by commas"},
}
