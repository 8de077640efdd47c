package hostile

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A Work is the operation that an honest client repeats in a Series.
type Work string

const (
	Null  Work = "NULL"
	Read  Work = "READ"          // of a byte
	Names Work = "CREATE+REMOVE" // of a file in the root of the open export
	Locks Work = "LOCK+LOCKU"    // of a byte of an open file, by NFSv4.1
	Large Work = "WRITE+READ"    // of 1 MiB of a file
)

// seriesVariable is an environment variable. A process that has it runs a Series. Its value names
// the transport, the daemon's address, the Work, and whether the series is steady.
const seriesVariable = "NFSRDMAD_HOSTILE_SERIES"

// seriesFor is the duration of a Series that is not steady. steadyRest is the pause of a steady
// Series after each call.
const (
	seriesFor  = 2 * time.Second
	steadyRest = 20 * time.Millisecond
)

// A Series is the result of the calls that one honest client made one at a time, with the times
// that they took.
type Series struct {
	Asked, Failed      int
	Took               time.Duration // the time for all calls
	Median, P99, Worst time.Duration
	Fault              string // the error of one failed call
}

// rate returns the number of answered calls a second.
func (n Series) rate() float64 { return float64(n.Asked-n.Failed) / n.Took.Seconds() }

func (n Series) String() string {
	text := fmt.Sprintf("%.0f a second, median %s, 99 of 100 within %s, worst %s",
		n.rate(), inWords(n.Median), inWords(n.P99), inWords(n.Worst))
	if n.Failed > 0 {
		text += fmt.Sprintf("; %d of %d failed, one with: %s", n.Failed, n.Asked, n.Fault)
	}
	return text
}

// ServeSeries runs a Series, prints it and exits, if the environment has seriesVariable. TestMain
// calls it. The honest client has a process of its own, because in the process of the hostile
// peers it would have to wait for processor time.
func ServeSeries() {
	var transport, at string
	var work Work
	var steady bool
	if n, _ := fmt.Sscan(os.Getenv(seriesVariable), &transport, &at, &work, &steady); n < 4 {
		return
	}
	more := func(begin time.Time) bool { return time.Since(begin) < seriesFor }
	if steady {
		ctx, end := context.WithCancel(context.Background())
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			end()
		}()
		more = func(time.Time) bool {
			wait(ctx, steadyRest)
			return ctx.Err() == nil
		}
	}
	d := Daemon{TCP: netip.MustParseAddrPort(at), RDMA: netip.MustParseAddrPort(at)}
	if err := json.NewEncoder(os.Stdout).Encode(d.series(transport, work, more)); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// series makes a call, and further calls as long as the function more returns true. It returns
// their times.
func (d *Daemon) series(transport string, work Work, more func(begin time.Time) bool) (n Series) {
	ctx := context.Background()
	ask, end, err := d.worker(ctx, transport, work)
	if err != nil {
		return Series{Asked: 1, Failed: 1, Took: 1, Fault: err.Error()}
	}
	defer end()
	var all []sample
	begin := time.Now()
	for len(all) == 0 || more(begin) {
		all = append(all, samples(ctx, 1, 0, func(ctx context.Context, _ int) error { return ask(ctx, len(all)) })...)
	}
	n.Took = time.Since(begin)
	slices.SortFunc(all, func(a, b sample) int { return cmp.Compare(a.took, b.took) })
	got := summarize(all)
	n.Asked, n.Failed, n.Median = got.asked, got.failed, got.median
	n.P99, n.Worst = all[len(all)*99/100].took, all[len(all)-1].took
	if got.err != nil {
		n.Fault = got.err.Error()
	}
	return n
}

// worker connects a new client. Each call of ask then does one unit of work. A client of the Work
// Null makes no call but NULL. So it never uses a file handle, and the daemon cannot tell it from a
// peer that is no NFS client (rpc.Conn.Known).
func (d *Daemon) worker(ctx context.Context, transport string, work Work) (ask func(ctx context.Context, i int) error, end func(), err error) {
	if work == Null {
		c, err := d.dial(ctx, transport)
		if err != nil {
			return nil, nil, err
		}
		return func(ctx context.Context, _ int) error { return c.Null(ctx) }, c.Close, nil
	}
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	if work == Locks {
		return d.locks(ctx, transport)
	}
	h, err := d.arrive(ctx, transport, openName, honestNames()...)
	if err != nil {
		return nil, nil, err
	}
	root, err := h.Mount(ctx, openName)
	if err != nil {
		h.Close()
		return nil, nil, err
	}
	if work == Read {
		return h.readOne, h.Close, nil
	}
	name := fmt.Sprint("made over ", transport, " by ", os.Getpid())
	if work == Large {
		file, err := h.Create(ctx, root, name, 0o644)
		if err != nil {
			h.Close()
			return nil, nil, err
		}
		return func(ctx context.Context, _ int) error { return h.moveOne(ctx, file) }, h.Close, nil
	}
	return func(ctx context.Context, _ int) error { return h.makeOne(ctx, root, name) }, h.Close, nil
}

// locks connects a new NFSv4.1 client. Each call of ask locks a byte and unlocks it.
func (d *Daemon) locks(ctx context.Context, transport string) (ask func(ctx context.Context, i int) error, end func(), err error) {
	h, err := d.arrive4(ctx, transport, openName)
	if err != nil {
		return nil, nil, err
	}
	owner := []byte("honest")
	o, err := h.Open(ctx, client.Open4{Dir: h.dir, Name: honestName(0), Owner: owner, Access: wire.Open4ShareAccessRead})
	if err != nil {
		h.Session.Abandon()
		return nil, nil, fmt.Errorf("OPEN: %w", err)
	}
	return func(ctx context.Context, i int) error {
		at := client.Range4{Offset: uint64(i), Length: 1}
		lock, err := h.Lock(ctx, o.File, o.StateID, owner, wire.ReadLt, at)
		if err != nil {
			return fmt.Errorf("LOCK: %w", err)
		}
		if _, err := h.Unlock(ctx, o.File, lock, wire.ReadLt, at); err != nil {
			return fmt.Errorf("LOCKU: %w", err)
		}
		return nil
	}, h.Session.Abandon, nil
}

// startSeries starts a child process that repeats work at the daemon: until the caller calls the
// function end if steady is true, otherwise for the time seriesFor. The function end waits for the
// process and returns its result.
func (d *Daemon) startSeries(transport string, work Work, steady bool) (end func() (Series, error)) {
	at := d.TCP
	if transport == "rdma" {
		at = d.RDMA
	}
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s %v", seriesVariable, transport, at, work, steady))
	c.Stderr = os.Stderr
	// A steady Series ends when the standard input of its process ends.
	in, err := c.StdinPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { in.Close() })
	type outcome struct {
		said []byte
		err  error
	}
	ended := make(chan outcome, 1)
	go func() {
		said, err := c.Output()
		ended <- outcome{said, err}
	}()
	return func() (n Series, err error) {
		in.Close()
		o := <-ended
		if o.err != nil {
			return n, fmt.Errorf("the process that does %s: %w", work, o.err)
		}
		return n, json.Unmarshal(o.said, &n)
	}
}
