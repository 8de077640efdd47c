package hostile

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"time"
)

// nullsVariable names a transport and an address in the environment of a process that makes
// NULL calls.
const nullsVariable = "NFSRDMAD_HOSTILE_NULLS"

// How many NULL calls an honest client makes, and for how long at most.
const (
	nullsJudged = 1000
	nullsFor    = 3 * time.Second
)

// Nulls are what NULL calls came to, that one honest client made one at a time.
type Nulls struct {
	Asked, Failed int
	Took          time.Duration // all of them
	Median, P99   time.Duration
	Fault         string // of one that failed
}

func (n Nulls) String() string {
	text := fmt.Sprintf("%.0f a second, median %s, 99 of 100 within %s", float64(n.Asked-n.Failed)/n.Took.Seconds(), inWords(n.Median), inWords(n.P99))
	if n.Failed > 0 {
		text += fmt.Sprintf("; %d of %d failed, one with: %s", n.Failed, n.Asked, n.Fault)
	}
	return text
}

// ServeNulls is for TestMain: a process with nullsVariable in its environment makes NULL
// calls, says what they came to, and ends. In the process of hostile peers a client would
// wait for its turn among them.
func ServeNulls() {
	var transport, at string
	if n, _ := fmt.Sscan(os.Getenv(nullsVariable), &transport, &at); n < 2 {
		return
	}
	d := Daemon{TCP: netip.MustParseAddrPort(at), RDMA: netip.MustParseAddrPort(at)}
	if err := json.NewEncoder(os.Stdout).Encode(d.nulls(transport)); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

func (d *Daemon) nulls(transport string) (n Nulls) {
	ctx := context.Background()
	c, err := d.dial(ctx, transport)
	if err != nil {
		return Nulls{Asked: 1, Failed: 1, Took: 1, Fault: err.Error()}
	}
	defer c.Close()
	var all []sample
	begin := time.Now()
	for len(all) < nullsJudged && time.Since(begin) < nullsFor {
		all = append(all, samples(ctx, 1, 0, func(ctx context.Context, _ int) error { return c.Null(ctx) })...)
	}
	n.Took = time.Since(begin)
	slices.SortFunc(all, func(a, b sample) int { return cmp.Compare(a.took, b.took) })
	got := summarize(all)
	n.Asked, n.Failed, n.Median = got.asked, got.failed, got.median
	n.P99 = all[len(all)*99/100].took
	if got.err != nil {
		n.Fault = got.err.Error()
	}
	return n
}

// startNulls has a process of its own make NULL calls to the daemon.
func (d *Daemon) startNulls(transport string) (end func() (Nulls, error)) {
	at := d.TCP
	if transport == "rdma" {
		at = d.RDMA
	}
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s", nullsVariable, transport, at))
	c.Stderr = os.Stderr
	type outcome struct {
		said []byte
		err  error
	}
	ended := make(chan outcome, 1)
	go func() {
		said, err := c.Output()
		ended <- outcome{said, err}
	}()
	return func() (n Nulls, err error) {
		o := <-ended
		if o.err != nil {
			return n, fmt.Errorf("the process that makes NULL calls: %w", o.err)
		}
		return n, json.Unmarshal(o.said, &n)
	}
}
