package bench

import (
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/nfsrdmad/nfsrdmad/client"
)

// A Result is what Run measured. Its JSON keys are stable; times are in
// nanoseconds, sizes in bytes.
type Result struct {
	Server    string           `json:"server"`
	Transport client.Transport `json:"transport"`
	// RDMAVersion is the version of RPC-over-RDMA that the connections have; 0 over TCP.
	RDMAVersion int           `json:"rdma_version,omitempty"`
	NFS         string        `json:"nfs"`
	Security    client.Flavor `json:"security"`
	Export      string        `json:"export"`
	Workload    string        `json:"workload"`
	Size        int           `json:"size"`
	FileSize    int64         `json:"file_size"`
	Depth       int           `json:"depth"`
	Connections int           `json:"connections"`
	// InProgress is the number of requests that all connections together had in progress: Depth times
	// Connections, or less if the server allows less at a time, by its slots (NFS version 4) or credits
	// (RDMA).
	InProgress int `json:"in_progress"`
	// Interrupted is true if the measurement was ended before its time by the context of Run.
	Interrupted bool `json:"interrupted,omitempty"`

	Elapsed time.Duration `json:"elapsed_ns"`
	// Operations and Bytes (of payload) are totals of the whole measurement. Delayed is the number
	// of calls that were repeated because the server asked for it. Entries is the number of names
	// that readdirplus and readdir listed.
	Operations          int64   `json:"operations"`
	Bytes               int64   `json:"bytes"`
	Delayed             int64   `json:"delayed"`
	Entries             int64   `json:"entries"`
	OperationsPerSecond float64 `json:"operations_per_second"`
	BytesPerSecond      float64 `json:"bytes_per_second"`
	EntriesPerSecond    float64 `json:"entries_per_second"`
	// Latency has the latencies of single operations.
	Latency Latency `json:"latency"`
	// CPU is the processor time that this process used; CPUShare is that time
	// divided by Elapsed.
	CPU        time.Duration `json:"cpu_ns"`
	CPUShare   float64       `json:"cpu_share"`
	CPUPerOp   time.Duration `json:"cpu_per_operation_ns"`
	Processors int           `json:"processors"`
}

// Latency summarises the durations of operations: the times that 50, 90, 99 and 99.9
// percent of them did not exceed, and the longest.
type Latency struct {
	P50  time.Duration `json:"p50_ns"`
	P90  time.Duration `json:"p90_ns"`
	P99  time.Duration `json:"p99_ns"`
	P999 time.Duration `json:"p999_ns"`
	Max  time.Duration `json:"max_ns"`
}

// result sums up what the connections counted.
func (b *bench) result(elapsed, cpu time.Duration) *Result {
	m := &Result{
		Server: b.cfg.Target.Address(), Transport: b.cfg.Transport, RDMAVersion: b.rdmaVersion, NFS: b.cfg.NFS, Security: b.cfg.Flavor(), Export: b.cfg.Export, Workload: b.cfg.Workload,
		Depth: b.cfg.Depth, Connections: b.cfg.Connections, Elapsed: elapsed,
		CPU: cpu, CPUShare: float64(cpu) / float64(elapsed), Processors: runtime.NumCPU(),
	}
	m.InProgress = min(m.Depth*m.Connections, b.atOnce)
	switch b.kind.needs {
	case groundFilled, groundOwn:
		m.Size, m.FileSize = b.cfg.Size, b.cfg.FileSize
	case groundListed:
		m.Size = b.cfg.Size
	}
	all := newLatencies()
	for _, c := range b.conns {
		m.Operations += c.operations.Load()
		m.Bytes += c.bytes.Load()
		m.Delayed += c.delayed.Load()
		m.Entries += c.entries.Load()
		all.merge(c.times)
	}
	m.OperationsPerSecond = float64(m.Operations) / elapsed.Seconds()
	m.BytesPerSecond = float64(m.Bytes) / elapsed.Seconds()
	m.EntriesPerSecond = float64(m.Entries) / elapsed.Seconds()
	m.CPUPerOp = cpu / time.Duration(max(m.Operations, 1))
	m.Latency = all.summary()
	return m
}

// over names the transport, and over RDMA the version of RPC-over-RDMA.
func (m *Result) over() string {
	if m.RDMAVersion > 0 {
		return fmt.Sprintf("%s version %d", m.Transport, m.RDMAVersion)
	}
	return string(m.Transport)
}

// Print writes the result as a table.
func (m *Result) Print(w io.Writer) {
	row := func(what, format string, args ...any) {
		fmt.Fprintf(w, "%-12s %s\n", what, fmt.Sprintf(format, args...))
	}
	row("server", "%s over %s, %s, NFS version %s, sec=%v", m.Server, m.over(), m.Export, m.NFS, m.Security)
	of := m.Workload
	if m.Size > 0 {
		of += fmt.Sprintf(", %s each", FormatBytes(float64(m.Size)))
	}
	if m.FileSize > 0 {
		of += fmt.Sprintf(", files of %s", FormatBytes(float64(m.FileSize)))
	}
	row("workload", "%s; %d at a time on each of %d connections", of, m.Depth, m.Connections)
	if m.InProgress < m.Depth*m.Connections {
		row("in progress", "%d in all: the server allows no more at a time, and the latencies include the wait for a turn", m.InProgress)
	}
	if m.Interrupted {
		row("interrupted", "the measurement was ended before its time")
	}
	row("operations", "%d in %.2f s: %.0f/s", m.Operations, m.Elapsed.Seconds(), m.OperationsPerSecond)
	if m.Bytes > 0 {
		row("payload", "%s: %s/s", FormatBytes(float64(m.Bytes)), FormatBytes(m.BytesPerSecond))
	}
	if m.Entries > 0 {
		row("entries", "%d: %.0f/s", m.Entries, m.EntriesPerSecond)
	}
	l := m.Latency
	row("latency", "p50 %s  p90 %s  p99 %s  p99.9 %s  max %s", short(l.P50), short(l.P90), short(l.P99), short(l.P999), short(l.Max))
	row("own CPU", "%.2f s: %.0f%% of one of %d processors, %s an operation", m.CPU.Seconds(), 100*m.CPUShare, m.Processors, short(m.CPUPerOp))
	if m.Delayed > 0 {
		row("delayed", "%d calls were made again because the server asked for it", m.Delayed)
	}
}

func short(d time.Duration) string {
	switch {
	case d < 10*time.Microsecond:
		return d.String()
	case d < 10*time.Millisecond:
		return d.Round(100 * time.Nanosecond).String()
	}
	return d.Round(100 * time.Microsecond).String()
}

// FormatBytes formats a number of bytes with a binary unit, such as 1.5 MiB.
func FormatBytes(n float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for n >= 1024 && i < len(units)-1 {
		n /= 1024
		i++
	}
	if n == float64(int64(n)) {
		return fmt.Sprintf("%.0f %s", n, units[i])
	}
	return fmt.Sprintf("%.1f %s", n, units[i])
}

// longest is the longest time that latencies can record.
const longest = time.Hour

// digits is the number of significant decimal digits of a recorded time. So a reported time is at
// most 1/100 more than the measured one, and never less.
const digits = 2

// latencies records the durations of operations. Many goroutines may call add, because several
// may take the replies of one connection.
type latencies struct {
	mu    sync.Mutex
	times *hdrhistogram.Histogram
	max   time.Duration
}

func newLatencies() *latencies {
	return &latencies{times: hdrhistogram.New(1, int64(longest), digits)}
}

func (l *latencies) add(d time.Duration) {
	l.mu.Lock()
	_ = l.times.RecordValue(int64(min(max(d, 0), longest))) // the duration is within the histogram's range, so this cannot fail
	l.max = max(l.max, d)
	l.mu.Unlock()
}

// merge adds the durations that its argument has recorded.
func (l *latencies) merge(from *latencies) {
	from.mu.Lock()
	defer from.mu.Unlock()
	l.times.Merge(from.times)
	l.max = max(l.max, from.max)
}

// percentile returns the time that p percent of all operations did not exceed.
func (l *latencies) percentile(p float64) time.Duration {
	return min(time.Duration(l.times.ValueAtPercentile(p)), l.max)
}

func (l *latencies) summary() Latency {
	return Latency{
		P50: l.percentile(50), P90: l.percentile(90), P99: l.percentile(99), P999: l.percentile(99.9),
		Max: l.max,
	}
}
