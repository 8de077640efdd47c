//go:build hostile

package hostile

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// What a call costs a daemon with full tables is what it costs a daemon with empty ones, plus a part for the bytes
// of the reply: each procedure of each program, and each operation of each minor version, over both transports, from
// a client and from a peer that no export serves. Such a peer gets no more bytes than it sends.
//
// The times are of the daemon's processor, and compared with those of NULL and of the other daemon in the same run.
func TestCostOfEachCall(t *testing.T) {
	empty, full := newPriced(t), newPriced(t)
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	crowd := Crammed{
		Peers: 64, Everything: full.Everything, Mounts: full.mounts,
		Clients: 32, Sessions: 8, Opens: 64, Locks: 16, Hosts: 16, Replies: 128,
	}
	begin := time.Now()
	a := crowd.Start(ctx, Target{TCP: full.TCP, RDMA: full.RDMA, Source: Strangers(crowd.Peers)})
	defer func() { cancel(); a.Wait() }()
	for a.Standing.Load() < int64(crowd.Peers) {
		if wait(ctx, 5*time.Millisecond); ctx.Err() != nil {
			t.Fatalf("%v: %v", crowd, a)
		}
	}
	t.Logf("%v: after %v, %v", crowd, time.Since(begin).Round(time.Millisecond), a)
	for _, transport := range Transports {
		for _, c := range []struct {
			who string
			at  netip.Addr
		}{{"a stranger", netip.MustParseAddr("127.100.0.1")}, {"a client", HonestAddress}} {
			t.Run(c.who+" over "+transport, func(t *testing.T) {
				compare(ctx, t, empty.open(ctx, t, transport, c.at), full.open(ctx, t, transport, c.at))
			})
		}
	}
}

// compare compares the costs of each call at two daemons. It measures again before it fails a call, because other
// work of the machine and of the daemons is in the times, too.
func compare(ctx context.Context, t *testing.T, empty, full *till) {
	var worst float64
	for i, c := range full.calls {
		if c.Name != empty.calls[i].Name {
			t.Fatalf("%s at one daemon, %s at the other", c.Name, empty.calls[i].Name)
		}
		for try := 1; ; try++ {
			null, before, after := full.calls[0].cost(t), empty.calls[i].cost(t), c.cost(t)
			if full.stranger && after.received > after.sent {
				t.Errorf("%s: %v", c.Name, after)
			}
			most := 4*before.processor + 10*null.processor + null.processor*time.Duration(after.received)/kib
			of := float64(after.processor) / float64(most)
			if of > 1 && try < 4 && ctx.Err() == nil {
				continue
			}
			if worst = max(worst, of); of > 1 {
				t.Errorf("%s: %v with full tables, %v with empty ones, %v NULL", c.Name, after, before, null)
			}
			break
		}
	}
	t.Logf("%d calls; the most expensive one takes %.2f of what it may", len(full.calls), worst)
}

// priced is a daemon with one export, for the honest client and for the addresses of Strangers.
type priced struct {
	*Daemon
	Everything
	mounts []string // paths in the export
}

func newPriced(t *testing.T) *priced {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("users and exports of several kinds need root")
	}
	dir := t.TempDir()
	furnish(t, dir, manyNames)
	p := new(priced)
	for i := range 64 {
		name := fmt.Sprintf("dir%d", i)
		p.mounts = append(p.mounts, openName+"/"+name)
		if err := os.Mkdir(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	p.Daemon = startDaemon(t, program, Config{}, []exported{{dir, openName, "rw,insecure,no_root_squash,clients=127.0.0.1;127.192.0.0/10"}})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := p.arrive(ctx, "tcp", openName, manyName, victimName)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p.Everything = Everything{Dir: c.files[0], File: c.files[1], Path: p.mounts[0]}
	return p
}

// A till has the calls of one peer to a priced daemon, and the connections for them: one for each minor version of
// NFSv4.
type till struct {
	calls    []charged
	stranger bool
}

// A charged is a call and the connection on which it is made.
type charged struct {
	Call
	by *payer
}

func (p *priced) open(ctx context.Context, t *testing.T, transport string, from netip.Addr) *till {
	t.Helper()
	k := &till{stranger: from != HonestAddress}
	calls := p.EveryCall()
	for minor := range uint32(3) {
		y, end, err := dialPayer(ctx, p.Daemon, transport, from)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(end)
		if k.stranger {
			calls = append(calls, y.operations(p.Everything, minor, true)...)
		} else if err := y.begin(minor, "payer over "+transport, netip.AddrPortFrom(from, 9)); err != nil {
			t.Fatalf("a client of NFSv4.%d: %v", minor, err)
		}
		for _, c := range append(calls, y.operations(p.Everything, minor, false)...) {
			k.calls = append(k.calls, charged{c, y})
		}
		calls = nil
	}
	return k
}

func (c charged) cost(t *testing.T) cost {
	t.Helper()
	got, err := c.by.pay(c.Message)
	if err != nil {
		t.Fatalf("%s: %v", c.Name, err)
	}
	return got
}
