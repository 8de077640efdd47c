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
var settings = slices.Concat(daemonSettings, softwareSettings, rdmaSettings, limitSettings, nfsSettings, kerberosSettings, exportSettings)

// usualBusyPoll is about three times as long as a client on the same machine or network takes
// from a reply to its next call.
const usualBusyPoll = Duration(100 * time.Microsecond)

// daemonSettings has the keys for the process as a whole.
var daemonSettings = []setting{
	listening("rdma", func(c *Config) *[]Listen { return &c.RDMA }, DefaultRDMAPort,
		"address to serve RDMA on: ADDR:PORT, :PORT or none; repeatable (default :20049)",
		"addresses to serve RDMA on: `\"IP:PORT\"`, `\"[IPv6]:PORT\"`, `\":PORT\"` for every address of both families; or `[\"none\"]`"),
	listening("tcp", func(c *Config) *[]Listen { return &c.TCP }, DefaultTCPPort,
		"address to serve TCP on: ADDR:PORT, :PORT or none; repeatable (default :2049)",
		"addresses to serve TCP on, in the same form. At least one of `rdma` and `tcp` must have an address. They cannot use the same port of an address, because RDMA is carried in TCP"),
	{key: "state_dir", usual: quoted(DefaultStateDir),
		flag: "directory that keeps what outlives a restart (default " + DefaultStateDir + ")",
		set: func(c *Config, words []string) error {
			c.StateDir = words[0]
			return nil
		},
		check: func(c *Config) error {
			c.StateDir = cmp.Or(c.StateDir, DefaultStateDir)
			return nil
		},
		meaning: "the directory for data that outlives the process: the key that signs file handles, and the index of handles if the kernel makes none. If it is lost, clients must mount anew. Only one daemon can use it at a time. The daemon does not start if the directory lies within an export, if an export lies within it, if it belongs to another user than the daemon's or root, or if other users may write to it"},
	choice("log_level", func(c *Config) *Choice { return &c.LogLevel }, []string{"info", "debug", "warn", "error"},
		"debug, info, warn or error (default info)",
		"`debug`, `info`, `warn` or `error`. The daemon does not log each call, at any level"),
	choice("log_format", func(c *Config) *Choice { return &c.LogFormat }, []string{"text", "json"}, "",
		"`text` or `json`, on standard error"),
	{key: "metrics", usual: "none", check: checkMetrics,
		meaning: "`\"HOST:PORT\"` of an HTTP endpoint `/metrics` for Prometheus, such as `\"127.0.0.1:9427\"`. It has no access control: keep it on loopback or a management network. It serves 16 connections at a time, and closes a connection that sends no request within seconds"},
	{key: "rpcbind", usual: "`true`",
		meaning: "whether to register NFS and MOUNT with rpcbind, if it runs, so that `showmount -e` and mounts without `port=` work"},
	timeout("drain_timeout", func(c *Config) *Duration { return &c.DrainTimeout }, 30*time.Second,
		"how long the daemon waits for calls in progress after SIGTERM. It ends at most two seconds later, even if a file system or disk does not answer: see [running.md](running.md#signals)"),
	number("busy_poll", func(c *Config) *Duration { return &c.BusyPoll }, usualBusyPoll, 0, Duration(time.Millisecond),
		"how long the daemon polls for the next call of a client that makes one call at a time, before it sleeps; from `\"0s\"` (no polling) to `\"1ms\"`. With polling such a client is served up to twice as fast, but one processor is busy. A poll ends early when the daemon has other work. Unsuccessful polling uses at most a sixteenth of one processor in total. On a machine with one processor the daemon does not poll"),

	number("memory.ceiling", func(c *Config) *Size { return &c.Memory.Ceiling }, 256<<20, 16<<20, 1<<40,
		"the limit for all connections together; at least 16M, and at most the memory of the machine or of the process's control group. If there are several exports, the calls of one file system use at most half of what the calls of other file systems leave free. So a file system that does not answer leaves half of the memory to the others, and a second one leaves half of that"),
	{key: "memory.connection", usual: "half of the ceiling",
		check: func(c *Config) error {
			return within(c, "memory.connection", &c.Memory.Connection, c.Memory.Ceiling/2, 4<<20, c.Memory.Ceiling)
		},
		meaning: "the limit for one connection; at least 4M. A peer that stalls occupies no more memory than this"},
	{key: "memory.state", usual: "as the ceiling",
		check: func(c *Config) error {
			return within(c, "memory.state", &c.Memory.State, c.Memory.Ceiling, 4<<20, 1<<40)
		},
		meaning: "memory for the state of NFSv4 clients, in addition to payload memory: three eighths of it for opens and locks, three eighths for sessions and the replies that they keep, and a quarter for Kerberos contexts of 8K each. Of the memory for opens and locks, and of that for sessions, the clients of one address may use at most half of what other addresses leave free (see [security.md](security.md#what-a-peer-can-cost)). An open file takes about 1K, a locked byte range 300 bytes. If a client needs more, it waits until something is closed; with 4.0 it gets an error, unless the daemon is about to take state from other clients for it"},
	number("memory.replies", func(c *Config) *Size { return &c.Memory.Replies }, 64<<20, 1<<20, 1<<40,
		"memory of the reply cache, in addition to payload memory. It keeps the replies to calls that change something, so that a repeated call of NFSv3 or 4.0 is answered and not executed again. A reply takes some 500 bytes. The last replies of each connection, as many as it may have calls in progress (128 over TCP, `credits` over RDMA), are protected: the daemon forgets them only if no connection has more than these. Raise this if `nfsrdmad_replies_forgotten_total{reason=\"young\"}` grows"),
}

// Auto is the value of RNIC.Provider for the software RNIC, together with RDMA devices if the
// machine has some.
const Auto = "auto"

// softwareSettings has the keys that only the software RNIC uses.
var softwareSettings = []setting{
	choice("rnic.crc", func(c *Config) *Choice { return &c.RNIC.CRC }, []string{"peer", "on", "off"}, "",
		"whether the software RNIC asks for a CRC32C on each frame (RFC 5044 §4.4): `on`, `off`, or `peer`, which leaves the decision to the peer. If either side asks, both sides use CRCs. Linux's siw does not ask"),
	{key: "rnic.fpdu", usual: quoted("auto"), check: checkFPDU,
		meaning: "the size of the frames that the software RNIC sends. With `auto` they are as large as the standard allows, which is cheapest for peers in software, or, with CRCs, as large as a TCP segment. With `mss` each frame fits into a TCP segment, which adapters in hardware may require. Otherwise, a number of bytes from 128 to 64768"},
}

// leastDeviceMemory is the smallest rnic.device_memory, in bytes. It is enough for some connections
// with default settings.
const leastDeviceMemory = 4 << 20

// rdmaSettings has the keys for RDMA connections of any provider.
var rdmaSettings = []setting{
	choice("rnic.provider", func(c *Config) *Choice { return &c.RNIC.Provider }, slices.Concat([]string{Auto}, providers.Names()),
		"what carries RDMA: auto, verbs (RDMA devices alone) or iwarp (the software RNIC alone)",
		"the provider of RDMA connections. `iwarp` is the software RNIC, which needs no device. `verbs` uses the machine's RDMA devices, through librdmacm and libibverbs: see [devices.md](devices.md). `auto` is the software RNIC, and also each device other than siw, if the program was built for devices and the libraries are installed; a log line says which devices are used").flagged("rdma-provider"),
	{key: "rnic.device_memory", usual: "the smaller of `memory.ceiling` and the rest of the limit of locked memory after `memory.ceiling` is subtracted; `memory.ceiling` if that rest is less than 4M",
		check: func(c *Config) error {
			usual := c.Memory.Ceiling
			if left := Size(min(Memlock(), 1<<40)) - c.Memory.Ceiling; left >= leastDeviceMemory {
				usual = min(usual, left)
			}
			return within(c, "rnic.device_memory", &c.RNIC.DeviceMemory, usual, leastDeviceMemory, 1<<40)
		},
		meaning: "memory for the messages of all connections over RDMA devices, in addition to payload memory; at least 4M. It is locked (`ulimit -l`, `LimitMEMLOCK=` in the unit). A connection uses (`credits` + 8) times `inline`, and 128K, as long as it exists; the connections of one client address use at most half of what other addresses leave free. If too little is left for a new connection, the daemon refuses it with a log line, and ends another connection that has made no call yet. The software RNIC does not use this memory"},
	number("rnic.credits", func(c *Config) *int { return &c.RNIC.Credits }, 128, 1, 4096,
		"the number of calls of one RDMA connection that may be in progress; 16 until its client has made a call that an export serves"),
	number("rnic.inline", func(c *Config) *Size { return &c.RNIC.Inline }, 4<<10, 1<<10, 256<<10,
		"inline threshold: the largest message sent without chunks. A multiple of 1K, from 1K to 256K; the peer may ask for less").and(checkInline),
}

// limitSettings has the keys of the table [limits].
var limitSettings = []setting{
	optional("limits.connections", func(c *Config) *int { return &c.Limits.Connections }, 1, 1<<20, "what open files allow, 32768 at most",
		"the number of connections at a time, over both transports together. When it is reached, a new connection replaces another one, or is refused: see [security.md](security.md#what-a-peer-can-cost). The limit of open files (`ulimit -n`, `LimitNOFILE=` in the unit) is divided: 64 descriptors are reserved for the daemon, and a sixteenth, but at most 1024, for calls in progress. Connections have half of the rest, or up to three quarters if this key asks for more, and files have what is left. If this key asks for more than that, the daemon uses a lower number, and a log line says so"),
	optional("limits.connections_per_client", func(c *Config) *int { return &c.Limits.PerClient }, 1, 1<<20, "half of `connections`",
		"the number of connections at a time from one client address (IPv6: from one /64). With the default no address can use all connections, and 1,000 mounts with `nconnect=16` behind one address stay below the limit"),
	timeout("limits.setup_timeout", func(c *Config) *Duration { return &c.Limits.SetupTimeout }, census.DefaultSetupTimeout,
		"how long a client may take to set up an RDMA connection, and then, over either transport, until its first message is complete. At most 1024 set-ups, or a quarter of `connections`, may be in progress; while more than half of that number are, the time limit is a fifth of this"),
	timeout("limits.first_call_timeout", func(c *Config) *Duration { return &c.Limits.FirstCallTimeout }, census.DefaultCallTimeout,
		"the daemon ends a connection after this time if no call came over it that names a file or a directory of an export which serves the client. A client that keeps a spare connection, as with `nconnect=`, connects again when it needs it. While fewer than a 64th of `connections` wait for such a call, this time limit and the one for a first message are at least 6 minutes"),
	number("limits.calls_in_flight", func(c *Config) *int { return &c.Limits.CallsInFlight }, 128, 1, 1<<16,
		"the number of calls of one TCP connection that may be in progress; when it is reached, the daemon does not read from the connection"),
	timeout("limits.stall_timeout", func(c *Config) *Duration { return &c.Limits.StallTimeout }, 30*time.Second,
		"if a peer stops in the middle of a message, does not answer an RDMA Read, or does not read its replies, the daemon ends its connection after this time"),
	{key: "limits.idle_timeout", usual: "none",
		check: func(c *Config) error {
			if c.Limits.IdleTimeout == 0 {
				return nil
			}
			return within(c, "limits.idle_timeout", &c.Limits.IdleTimeout, 0, shortest, longest)
		},
		meaning: "the daemon closes a TCP connection without calls after this time; `\"0s\"` means never. Linux clients connect again when they need to"},
}

// exportSettings has the keys of each [[export]].
var exportSettings = []setting{
	{key: "export.path", usual: "required",
		meaning: "the directory to export. File systems mounted beneath it are not part of the export, unless it has the option `crossmnt`"},
	{key: "export.name", usual: "the path",
		meaning: "the path that clients mount. File handles depend on it: if you change it, clients must mount anew"},
	{key: "export.options", usual: quoted(usualOptions()),
		meaning: "options from the table below, separated by commas"},
}
