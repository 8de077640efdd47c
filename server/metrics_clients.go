package server

import (
	"cmp"
	"maps"
	"math"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// shownClients is the largest number of client addresses that have values of their own in the metrics. Each has 5, and
// Prometheus keeps each value that it has ever seen.
const shownClients = 32

// otherClients is the label of all clients together that have no values of their own.
const otherClients = "other"

// A clientUse is what is shown of a client: its use since it has a name in the metrics.
type clientUse = rpc.Use

// topClients decides which clients have values of their own. No value that it shows ever decreases, as is required of a
// counter: what a client uses is added to its own value while it has one, and to that of the others at all other times.
type topClients struct {
	mu sync.Mutex
	// before is what each client had used at the last update, and forgottenBefore what the clients had that package rpc
	// has forgotten.
	before          map[netip.Addr]rpc.Use
	forgottenBefore rpc.Use
	at              time.Time
	// load is how much each client uses, as the mean of some time: see meanOver.
	load  map[netip.Addr]float64
	named map[netip.Addr]*clientUse
	other clientUse
}

// meanOver is the time over which the use of clients is averaged. A client without a place in the metrics takes that of
// another if it uses more than moreThan times as much.
const (
	meanOver = 10 * time.Minute
	moreThan = 2
)

// bytesOfACall is the number of bytes of files that count like a call.
const bytesOfACall = 32 << 10

// update adds what clients have used since the last update. It returns the use of all that are shown, by label. uses is
// rpc.Server.Uses: it is called here, so that of two updates the later one has the later uses.
func (t *topClients) update(uses func() (map[netip.Addr]rpc.Use, rpc.Use)) map[string]*clientUse {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, forgotten := uses()
	if t.named == nil {
		t.load, t.named, t.at = make(map[netip.Addr]float64), make(map[netip.Addr]*clientUse), time.Now()
	}
	passed := time.Since(t.at)
	t.at = t.at.Add(passed)
	keep := math.Exp(-passed.Seconds() / meanOver.Seconds())
	rest, recent := since(forgotten, t.forgottenBefore), make(map[netip.Addr]rpc.Use, len(t.named))
	t.other.Connections = 0
	for a, use := range now {
		was := t.before[a]
		if use.Calls < was.Calls { // package rpc has forgotten the client, and it has come again
			rest, was = since(rest, was), rpc.Use{}
		}
		more := since(use, was)
		t.load[a] = t.load[a]*keep + float64(more.Calls) + float64(more.Read+more.Written)/bytesOfACall
		if shown := t.named[a]; shown != nil {
			add(shown, more)
			recent[a], shown.Connections = more, use.Connections
		} else {
			add(&t.other, more)
			t.other.Connections += use.Connections
		}
	}
	for a, use := range t.before {
		if _, there := now[a]; !there {
			// Package rpc has forgotten the client, and now its use is part of forgotten. Up to the last update it was
			// counted already.
			rest = since(rest, use)
			delete(t.load, a)
			delete(t.named, a)
		}
	}
	add(&t.other, rest)
	t.before, t.forgottenBefore = maps.Clone(now), forgotten
	t.choose(recent)
	shown := make(map[string]*clientUse, len(t.named)+1)
	for a, use := range t.named {
		one := *use
		shown[a.String()] = &one
	}
	others := t.other
	shown[otherClients] = &others
	return shown
}

// choose gives places in the metrics to the clients that use most. Their counters begin with 0. recent is what the clients
// with places have used since the last update: if one loses its place, no metric has shown it yet.
func (t *topClients) choose(recent map[netip.Addr]rpc.Use) {
	without := slices.SortedFunc(maps.Keys(t.load), func(a, b netip.Addr) int {
		return cmp.Or(cmp.Compare(t.load[b], t.load[a]), a.Compare(b))
	})
	without = slices.DeleteFunc(without, func(a netip.Addr) bool { return t.named[a] != nil || t.load[a] == 0 })
	for _, a := range without {
		if len(t.named) >= shownClients {
			least := slices.MinFunc(slices.Collect(maps.Keys(t.named)), func(a, b netip.Addr) int {
				return cmp.Or(cmp.Compare(t.load[a], t.load[b]), a.Compare(b))
			})
			if t.load[a] <= moreThan*t.load[least] {
				return
			}
			delete(t.named, least)
			add(&t.other, recent[least])
			t.other.Connections += t.before[least].Connections
		}
		t.named[a] = &clientUse{Connections: t.before[a].Connections}
		t.other.Connections -= t.before[a].Connections
	}
}

// since returns the use after an earlier look at the same clients, which showed before.
func since(now, before rpc.Use) rpc.Use {
	less := func(a, b uint64) uint64 { return a - min(a, b) }
	return rpc.Use{
		Calls: less(now.Calls, before.Calls), Read: less(now.Read, before.Read), Written: less(now.Written, before.Written),
		Took: max(now.Took-before.Took, 0),
	}
}

func add(to *clientUse, more rpc.Use) {
	to.Calls += more.Calls
	to.Read += more.Read
	to.Written += more.Written
	to.Took += more.Took
}
