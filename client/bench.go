package client

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// BenchConfig says what to measure.
type BenchConfig struct {
	Target
	// Export is the path to mount.
	Export string
	// MountPort is where MOUNT listens on TCP; 0: find it (Conn.DialMount).
	MountPort int
	// Workload is a name of Workloads.
	Workload string
	// Size is the bytes of a READ, WRITE or READDIRPLUS; what the server does
	// not take is reduced to what it does (1 MiB).
	Size int
	// FileSize of the files read and written, in bytes (256 MiB).
	FileSize int64
	// Files is how many names the directory of readdirplus has (1000).
	Files int
	// Depth is how many calls each connection keeps under way (16), and
	// Connections how many there are (1).
	Depth, Connections int
	// Duration ends the measurement, and so do Ops operations where that is
	// more than 0; Duration 0 with Ops means no end by time (10 s without).
	Duration time.Duration
	Ops      int64
	// Progress, where set, is called about every second.
	Progress func(Progress)
	// Timeout bounds connecting and each step of the preparation (30 s).
	Timeout time.Duration
}

func (c BenchConfig) withDefaults() BenchConfig {
	for _, v := range []struct {
		v *int
		d int
	}{{&c.Size, 1 << 20}, {&c.Files, 1000}, {&c.Depth, 16}, {&c.Connections, 1}} {
		if *v.v <= 0 {
			*v.v = v.d
		}
	}
	if c.FileSize <= 0 {
		c.FileSize = 256 << 20
	}
	if c.Duration <= 0 && c.Ops <= 0 {
		c.Duration = 10 * time.Second
	}
	if c.Timeout <= 0 {
		c.Timeout = 30 * time.Second
	}
	c.Target.Depth = max(c.Target.Depth, c.Depth)
	return c
}

// Progress is what a measurement has come to.
type Progress struct {
	Elapsed    time.Duration
	Operations int64
	Bytes      int64
}

// A bench is one measurement.
type bench struct {
	cfg   BenchConfig
	work  *workload
	conns []*benchConn
	ground

	start     time.Time
	stop      atomic.Bool
	unlimited bool
	left      atomic.Int64 // operations that may still begin
	running   sync.WaitGroup

	once sync.Once
	err  error
}

// A benchConn is one connection and what is measured on it.
type benchConn struct {
	*Conn
	number     int
	cursor     atomic.Uint64 // the next block of a sequential workload
	file       Handle        // what this connection works on
	operations atomic.Int64
	bytes      atomic.Int64
	delayed    atomic.Int64
	times      histogram
}

// Bench measures a server. It makes a directory of its own in the export for
// that, and removes it.
func Bench(ctx context.Context, cfg BenchConfig) (*Measured, error) {
	cfg = cfg.withDefaults()
	work := workloads[cfg.Workload]
	if work == nil {
		return nil, fmt.Errorf("client: workload %q is none of %v", cfg.Workload, Workloads())
	}
	b := &bench{cfg: cfg, work: work}
	defer func() {
		for _, c := range b.conns {
			c.Close()
		}
	}()
	if err := b.connect(ctx); err != nil {
		return nil, err
	}
	err := b.prepare(ctx)
	var m *Measured
	if err == nil {
		m, err = b.run(ctx)
	}
	if cleanup := b.clean(); err == nil {
		err = cleanup
	}
	return m, err
}

func (b *bench) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	for i := range b.cfg.Connections {
		c, err := Dial(ctx, b.cfg.Target)
		if err != nil {
			return err
		}
		b.conns = append(b.conns, &benchConn{Conn: c, number: i})
	}
	return nil
}

// run measures.
func (b *bench) run(ctx context.Context) (*Measured, error) {
	b.unlimited = b.cfg.Ops <= 0
	b.left.Store(b.cfg.Ops)
	var slots []*slot
	for _, c := range b.conns {
		for i := range b.cfg.Depth {
			slots = append(slots, newSlot(b, c, i))
		}
	}
	before := ownCPU()
	b.start = time.Now()
	b.running.Add(len(slots))
	for _, s := range slots {
		s.begin()
	}
	ended := make(chan struct{})
	go func() {
		b.running.Wait()
		close(ended)
	}()
	b.watch(ctx, ended)
	elapsed := time.Since(b.start)
	cpu := ownCPU() - before
	if b.err == nil {
		b.err = context.Cause(ctx)
	}
	if b.err != nil {
		return nil, b.err
	}
	return b.measured(elapsed, cpu), nil
}

// watch waits for the end, and tells how it goes.
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
	for {
		select {
		case <-ended:
			return
		case <-deadline:
			b.stop.Store(true)
		case <-cancelled:
			cancelled = nil
			b.fail(context.Cause(ctx))
		case <-tick.C:
			if b.cfg.Progress != nil {
				b.cfg.Progress(b.progress())
			}
		}
	}
}

func (b *bench) progress() Progress {
	p := Progress{Elapsed: time.Since(b.start)}
	for _, c := range b.conns {
		p.Operations += c.operations.Load()
		p.Bytes += c.bytes.Load()
	}
	return p
}

// fail ends the measurement for an error.
func (b *bench) fail(err error) {
	b.once.Do(func() { b.err = err })
	b.stop.Store(true)
}

// claim says whether one more operation may begin.
func (b *bench) claim() bool {
	return !b.stop.Load() && (b.unlimited || b.left.Add(-1) >= 0)
}

// ownCPU is the processor time that this process has used.
func ownCPU() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
