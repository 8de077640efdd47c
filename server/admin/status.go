package admin

import "time"

// Status describes the daemon as a whole.
type Status struct {
	Version string `json:"version"`
	PID     int    `json:"pid"`
	// UID is the user of the process.
	UID     int       `json:"uid"`
	Started time.Time `json:"started"`
	// State is "serving", or "draining" once the daemon was told to end. Condition says which exports cannot be opened, in
	// the words of the line Status: of systemctl status.
	State     string   `json:"state"`
	Condition string   `json:"condition"`
	StateDir  string   `json:"state_dir"`
	TCP       []string `json:"tcp"`
	RDMA      []string `json:"rdma"`
	// RDMAVersions are versions of RPC-over-RDMA.
	RDMAVersions []int    `json:"rdma_versions"`
	Versions     []string `json:"nfs_versions"`
	// Exports is the number of exports that are served, and Clients that of the clients that may hold files open or locked. Opens
	// and Locks count what all clients hold.
	Exports     int `json:"exports"`
	Connections int `json:"connections"`
	Clients     int `json:"clients"`
	Opens       int `json:"opens"`
	Locks       int `json:"locks"`
	// Calls is the number of calls in progress, Queued that of those among them that wait for a thread.
	Calls  int `json:"calls"`
	Queued int `json:"calls_queued"`
	// MemoryWaiting is the number of calls that have arrived in part, and wait for payload memory.
	MemoryWaiting int `json:"calls_waiting_for_memory"`
	// Grace is true during the grace period.
	Grace bool `json:"grace"`
	// Memory is the payload memory in use, and Ceiling its limit, in bytes.
	Memory  int64 `json:"payload_memory"`
	Ceiling int64 `json:"payload_memory_ceiling"`
	// LogLevel is the level in force.
	LogLevel string `json:"log_level"`
}

func (s *Status) lines(out *table) {
	out.line("version", s.Version)
	out.line("process", s.PID, "of user", s.UID)
	out.line("running", since(s.Started), "since", s.Started.Format(time.DateTime))
	out.line("state", s.State)
	out.line("condition", s.Condition)
	out.line("state directory", s.StateDir)
	out.line("TCP", orNone(s.TCP))
	out.line("RDMA", orNone(s.RDMA))
	out.line("RDMA versions", numbers(s.RDMAVersions))
	out.line("NFS versions", orNone(s.Versions))
	out.line("exports", s.Exports)
	out.line("connections", s.Connections)
	out.line("clients", s.Clients)
	out.line("open files", s.Opens)
	out.line("locks", s.Locks)
	out.line("calls in progress", s.Calls, "of which", s.Queued, "wait for a thread")
	out.line("calls waiting", s.MemoryWaiting, "for payload memory")
	out.line("grace period", yes(s.Grace))
	out.line("payload memory", size(s.Memory), "of", size(s.Ceiling))
	out.line("log level", s.LogLevel)
}
