// Package bench measures how fast an NFS server answers calls of NFS version 3, 4.1 or 4.2. It
// keeps a constant number of calls in progress on each of several connections, and records how long
// each took.
//
// The goroutine that takes the answer to a call sends the next call, and allocates nothing
// between the two, so that the measurement shows the server and the network. The files of
// the measurement lie in a directory of its own in the export, which Run makes and removes.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// Config configures a measurement. A field that is 0 or empty has the default in its comment.
type Config struct {
	client.Target
	// Export is the path to mount.
	Export string
	// MountPort is the TCP port of the server's MOUNT service. 0 means to find it: see
	// client.Conn.DialMount.
	MountPort int
	// NFS is the version: "3" (the default), "4.1" or "4.2".
	NFS string
	// Workload is a name from the list Workloads or, for NFS version 4, from the list Workloads4.
	Workload string
	// Size is the number of bytes of each READ and WRITE, and the size limit, in bytes, that the
	// client states in each READDIRPLUS and READDIR; default 1 MiB. If the server accepts less, Run
	// uses the server's maximum.
	Size int
	// FileSize is the size of the files read and written, in bytes; default 256 MiB.
	FileSize int64
	// Files is the number of names in the directory that the workloads readdirplus and readdir list;
	// default 1000.
	Files int
	// NoAttributes leaves out the GETATTR that follows each READ and WRITE with NFS version 4.
	NoAttributes bool
	// Depth is the number of calls that each connection keeps in progress; default 16. Connections
	// is the number of connections; default 1. With NFS version 4 they share one session.
	Depth, Connections int
	// Duration is how long the measurement lasts; default 10 s if Ops is 0, otherwise no limit. If
	// Ops is more than 0, the measurement also ends after that many operations.
	Duration time.Duration
	Ops      int64
	// Progress, unless nil, is called about every second.
	Progress func(Progress)
	// Timeout is the time limit for connecting and for each step of the preparation; default 30 s.
	Timeout time.Duration
}

func (c Config) withDefaults() Config {
	c.NFS = cmp.Or(c.NFS, "3")
	c.Size = cmp.Or(max(c.Size, 0), 1<<20)
	c.FileSize = cmp.Or(max(c.FileSize, 0), 256<<20)
	c.Files = cmp.Or(max(c.Files, 0), 1000)
	c.Depth = cmp.Or(max(c.Depth, 0), 16)
	c.Connections = cmp.Or(max(c.Connections, 0), 1)
	c.Timeout = cmp.Or(max(c.Timeout, 0), 30*time.Second)
	if c.Duration <= 0 && c.Ops <= 0 {
		c.Duration = 10 * time.Second
	}
	c.Target.Depth = max(c.Target.Depth, c.Depth)
	return c
}

// Progress is the state of a measurement.
type Progress struct {
	Elapsed    time.Duration
	Operations int64
	Bytes      int64
}

// A bench is one measurement.
type bench struct {
	cfg   Config
	kind  kind
	nfs   protocol
	conns []*conn
	ground

	start     time.Time
	stop      atomic.Bool
	unlimited bool
	left      atomic.Int64 // operations that may still begin
	running   sync.WaitGroup
	active    atomic.Int64 // slots that have not stopped
	atOnce    int          // protocol.atOnce, at the end of the measurement, while the connections were there
	// rdmaVersion is the version of RPC-over-RDMA, at the end of the measurement; 0 over TCP.
	rdmaVersion int
	// until is when watch stopped the slots. abandoned is true if it then abandoned the connections.
	until     time.Duration
	abandoned bool

	once sync.Once
	err  error
}

// A conn has the counters of one connection. With NFS version 4 the session distributes the requests
// to its connections, so there a conn counts the requests of Config.Depth slots.
type conn struct {
	number     int
	cursor     atomic.Uint64 // the next block of a sequential workload
	file       file          // the file or directory of this connection
	operations atomic.Int64
	bytes      atomic.Int64
	entries    atomic.Int64
	delayed    atomic.Int64
	times      *latencies
}

func newConn(number int) *conn { return &conn{number: number, times: newLatencies()} }

// A protocol makes the requests of one version of NFS by which a bench prepares a measurement, and
// cleans up after it.
type protocol interface {
	// mount returns the handle of the export's root.
	mount(ctx context.Context) (client.Handle, error)
	// limits returns the largest sizes of READ, WRITE and listings, in bytes.
	limits(ctx context.Context, root client.Handle) (limits, error)
	mkdir(ctx context.Context, dir client.Handle, name string) (client.Handle, error)
	// create makes a file and leaves it open. release closes it.
	create(ctx context.Context, dir client.Handle, name string) (file, error)
	release(ctx context.Context, f file) error
	// write writes unstably, and returns the number of bytes that the server took.
	write(ctx context.Context, f file, offset uint64, p []byte) (int, error)
	commit(ctx context.Context, f file) error
	list(ctx context.Context, dir client.Handle) (names []string, err error)
	Walk(ctx context.Context, dir client.Handle, path string) (client.Handle, error)
	Remove(ctx context.Context, dir client.Handle, name string) error
	Rmdir(ctx context.Context, dir client.Handle, name string) error
	// atOnce returns the largest number of requests that the server lets all connections together have
	// in progress.
	atOnce() int
	// rdma describes one of the connections, if they are over RDMA.
	rdma() (i rdma.Info, ok bool)
	// newSlot returns the slot with this number of a connection, for the workload of b.
	newSlot(b *bench, c *conn, number int) *slot
	// end ends the connections. abandon does so without a further request to the server, and makes
	// all calls in progress fail.
	end() error
	abandon()
}

// A file is an open file, or a directory. With NFS version 4 an open file has a stateid.
type file struct {
	handle client.Handle
	open   wire.StateID4
}

// limits are the largest sizes, in bytes, that a server and this client accept.
type limits struct{ read, write, list int }

// dial connects to the server.
func dial(ctx context.Context, cfg *Config, connections int) (protocol, error) {
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	if cfg.NFS == "3" {
		return dial3(ctx, cfg, connections)
	}
	return dial4(ctx, cfg, connections)
}

// Run measures a server. It makes a directory of its own in the export, and removes it,
// even if ctx ends before the measurement does. If ctx ends while it measures, Run returns the Result of the
// measurement so far, whose field Interrupted is true, together with the error.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	cfg = cfg.withDefaults()
	work, err := kindOf(&cfg)
	if err != nil {
		return nil, err
	}
	b := &bench{cfg: cfg, kind: work}
	m, err := b.measure(ctx)
	if err != nil && client.Refused(err) {
		err = fmt.Errorf("%w: the server refuses sec=%v for this export: use --sec with a flavor that 'nfsrdmad probe' lists for it", err, cfg.Flavor())
	}
	return m, err
}

// kindOf returns the kind of the configured workload.
func kindOf(cfg *Config) (kind, error) {
	var names []string
	switch cfg.NFS {
	case "3":
		if w := workloads[cfg.Workload]; w != nil {
			return w.kind, nil
		}
		names = Workloads()
	case "4.1", "4.2":
		if w := workloads4[cfg.Workload]; w != nil {
			return w.kind, nil
		}
		names = Workloads4()
	default:
		return kind{}, fmt.Errorf("bench: NFS version %q is none of 3, 4.1, 4.2", cfg.NFS)
	}
	return kind{}, fmt.Errorf("bench: workload %q is none of %v", cfg.Workload, names)
}

// measure connects, makes the files, measures, and removes the files.
func (b *bench) measure(ctx context.Context) (m *Result, err error) {
	if b.nfs, err = dial(ctx, &b.cfg, b.cfg.Connections); err != nil {
		return nil, fmt.Errorf("bench: connecting to %s over %s, for at most %v: %w", b.cfg.Address(), b.cfg.Transport, b.cfg.Timeout, err)
	}
	for i := range b.cfg.Connections {
		b.conns = append(b.conns, newConn(i))
	}
	if err = b.prepare(ctx); err == nil {
		m, err = b.run(ctx)
	}
	return m, errors.Join(err, b.clean())
}

// run measures with Config.Depth slots on each connection.
func (b *bench) run(ctx context.Context) (*Result, error) {
	b.unlimited = b.cfg.Ops <= 0
	b.left.Store(b.cfg.Ops)
	var slots []*slot
	for _, c := range b.conns {
		for i := range b.cfg.Depth {
			slots = append(slots, b.nfs.newSlot(b, c, i))
		}
	}
	before := ownCPU()
	b.start = time.Now()
	b.running.Add(len(slots))
	b.active.Store(int64(len(slots)))
	for _, s := range slots {
		s.begin(time.Since(b.start))
	}
	ended := make(chan struct{})
	go func() {
		b.running.Wait()
		close(ended)
	}()
	b.watch(ctx, ended)
	elapsed := time.Since(b.start)
	if b.abandoned { // nothing was measured while the server left calls unanswered
		elapsed = b.until
	} else {
		b.describe()
	}
	return b.outcome(ctx, elapsed, ownCPU()-before)
}

// describe notes what the connections say of themselves.
func (b *bench) describe() {
	b.atOnce = b.nfs.atOnce()
	if i, ok := b.nfs.rdma(); ok {
		b.rdmaVersion = i.Version
	}
}

// outcome returns the result of a measurement that is over. If ctx has ended it, the result is what was measured
// until then.
func (b *bench) outcome(ctx context.Context, elapsed, cpu time.Duration) (m *Result, err error) {
	ended := context.Cause(ctx)
	if err = cmp.Or(b.err, ended); err != nil {
		err = fmt.Errorf("bench: measuring %s at %s: %w", b.cfg.Workload, b.cfg.Address(), err)
	}
	if b.err != nil && !errors.Is(b.err, ended) {
		return nil, err
	}
	m = b.result(elapsed, cpu)
	m.Interrupted = ended != nil
	return m, err
}

// watch waits until the channel ended is closed, which means that all slots have stopped. It stops
// them when Config.Duration is over or ctx ends. If calls are still in progress Config.Timeout after
// that, it abandons the connections. It calls Config.Progress about every second.
func (b *bench) watch(ctx context.Context, ended <-chan struct{}) {
	var deadline <-chan time.Time
	if b.cfg.Duration > 0 {
		t := time.NewTimer(b.cfg.Duration)
		defer t.Stop()
		deadline = t.C
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	cancelled := ctx.Done()
	var late <-chan time.Time
	for {
		select {
		case <-ended:
			return
		case <-deadline:
			b.stop.Store(true)
			b.until = time.Since(b.start)
			late = time.After(b.cfg.Timeout)
		case <-cancelled:
			cancelled = nil
			b.fail(context.Cause(ctx))
			b.until = time.Since(b.start)
			late = time.After(b.cfg.Timeout)
		case <-late:
			b.fail(fmt.Errorf("the server has left %d calls unanswered for %v after the end of the measurement", b.active.Load(), b.cfg.Timeout))
			b.describe()
			b.abandoned = true
			b.nfs.abandon()
		case <-tick.C:
			if b.cfg.Progress != nil {
				b.cfg.Progress(b.progress())
			}
		}
	}
}

// stopped notes that a slot makes no more requests.
func (b *bench) stopped() {
	b.active.Add(-1)
	b.running.Done()
}

func (b *bench) progress() Progress {
	p := Progress{Elapsed: time.Since(b.start)}
	for _, c := range b.conns {
		p.Operations += c.operations.Load()
		p.Bytes += c.bytes.Load()
	}
	return p
}

// fail ends the measurement because of an error. Only the first error is kept.
func (b *bench) fail(err error) {
	b.once.Do(func() { b.err = err })
	b.stop.Store(true)
}

// claim reports whether one more operation may begin, and counts it if Config.Ops limits the number.
// It returns false after Config.Ops operations, or if the measurement is ending.
func (b *bench) claim() bool {
	return !b.stop.Load() && (b.unlimited || b.left.Add(-1) >= 0)
}

// took records an operation on c that ends now and moved n bytes of payload. The argument began is
// the time at which the operation began, and the result the time at which it ended; both are
// counted from b.start.
func (b *bench) took(c *conn, began time.Duration, n int) (ended time.Duration) {
	ended = time.Since(b.start)
	c.times.add(ended - began)
	c.operations.Add(1)
	if n > 0 {
		c.bytes.Add(int64(n))
	}
	return ended
}

// ownCPU returns the processor time that this process has used.
func ownCPU() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
