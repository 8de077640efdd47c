package nlm_test

import (
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nsmwire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// notes are Records in memory.
type notes struct {
	starts uint32
	all    map[string]state.Record
	puts   int
}

func (n *notes) Begin() (uint32, []state.Record, error) {
	n.starts++
	var known []state.Record
	for _, r := range n.all {
		known = append(known, r)
	}
	return n.starts, known, nil
}

func (n *notes) Put(more []state.Record) error {
	if n.all == nil {
		n.all = map[string]state.Record{}
	}
	n.puts++
	for _, r := range more {
		n.all[r.Owner] = r
	}
	return nil
}

func (n *notes) Remove(gone []state.Record) error {
	for _, r := range gone {
		delete(n.all, r.Owner)
	}
	return nil
}

func (h *host) reclaim(w want) wire.Stat4 {
	h.t.Helper()
	return h.res(wire.ProcLock, &wire.LockArgs4{Cookie: cookie, Exclusive: w.exclusive, Lock: h.lock4(w), Reclaim: true})
}

// notify calls NOTIFY of the status monitor.
func (h *host) notify(name string, restarts int32) {
	h.t.Helper()
	h.xid++
	header := rpc.CallHeader{XID: h.xid, Program: nsmwire.Program, Version: nsmwire.Version, Procedure: uint32(nsmwire.ProcNotify)}
	if _, err := h.run(rpctest.CallMessage(header, func(w *xdr.Writer) {
		(&nsmwire.Status{Name: []byte(name), State: restarts}).Encode(w)
	})).Results(); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) freeAll(name string, restarts int32) {
	h.t.Helper()
	h.call(wire.ProcFreeAll, &wire.Notify4{Name: []byte(name), State: restarts}, nil)
}

// A host is recorded before its first lock. After a restart of the server it alone may reclaim, and no host locks
// anything else until the grace period is over. Reclaiming ends then (NLM-30, NLM-31).
func TestReclaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records, f := &notes{}, &far{t: t, port: 4045}
		s := newSite(t, options{records: records, dial: f.dial})
		w := want{1, 0, 10, true}
		a := s.host("a", "10.0.0.2:900", 1000)
		is(t, "reclaiming where nothing was held", a.reclaim(w), wire.DeniedGracePeriod)
		is(t, "records before the first lock", records.puts, 0)
		is(t, "LOCK", a.lock(w), wire.Granted)
		is(t, "LOCK", a.lock(want{2, 20, 10, true}), wire.Granted)
		is(t, "records", records.puts, 1)
		s.end()

		s = newSite(t, options{records: records, dial: f.dial})
		a, b := s.host("a", "10.0.0.2:900", 1000), s.host("b", "10.0.0.3:900", 1000)
		is(t, "LOCK in the grace period", b.lock(want{1, 100, 1, false}), wire.DeniedGracePeriod)
		is(t, "TEST", b.test(want{1, 100, 1, false}).Stat, wire.DeniedGracePeriod)
		is(t, "reclaiming by another", b.reclaim(w), wire.DeniedGracePeriod)
		is(t, "LOCK of the one that held it", a.lock(w), wire.DeniedGracePeriod)
		is(t, "reclaiming", a.reclaim(w), wire.Granted)
		is(t, "reclaiming more", a.reclaim(want{2, 20, 10, true}), wire.Granted)
		is(t, "UNLOCK", a.unlock(want{2, 20, 10, true}), wire.Granted)
		time.Sleep(5 * time.Minute)
		is(t, "LOCK of what was reclaimed", b.lock(w), wire.Denied)
		is(t, "LOCK of what is free", b.lock(want{2, 20, 10, true}), wire.Granted)
		is(t, "reclaiming too late", a.reclaim(want{1, 50, 1, true}), wire.DeniedGracePeriod)
		s.end()
	})
}

// A host that did not reclaim has no record any more: after one more restart it reclaims nothing (NLM-32).
func TestHostThatDidNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records := &notes{}
		w := want{1, 0, 10, true}
		s := newSite(t, options{records: records})
		is(t, "LOCK", s.host("a", "10.0.0.2:900", 1000).lock(w), wire.Granted)
		s.end()
		s = newSite(t, options{records: records})
		time.Sleep(5 * time.Minute)
		b := s.host("b", "10.0.0.3:900", 1000)
		is(t, "LOCK of another", b.lock(w), wire.Granted)
		is(t, "UNLOCK of another", b.unlock(w), wire.Granted)
		s.end()
		s = newSite(t, options{records: records})
		is(t, "reclaiming", s.host("a", "10.0.0.2:900", 1000).reclaim(w), wire.DeniedGracePeriod)
		s.end()
	})
}

// After a restart the server tells those hosts that held locks, from the address that they had called, with a number that
// is odd and grows. It tells a host that does not answer again, for a quarter of an hour (NLM-33).
func TestHostsAreToldOfARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records, f := &notes{}, &far{t: t, port: 600}
		for range 2 {
			s := newSite(t, options{records: records, dial: f.dial})
			nlm.NewMonitor(s.program).Announce()
			synctest.Wait()
			a := s.host("a", "10.0.0.2:900", 1000)
			a.reclaim(want{1, 0, 10, true})
			a.lock(want{1, 0, 10, true})
			s.end()
		}
		if len(f.notified) != 2 || f.notified[0].State != 5 || string(f.notified[0].Name) != "10.0.0.1" || string(f.notified[1].Name) != "the server" {
			t.Errorf("told %+v", f.notified)
		}
		is(t, "called", strings.Join(f.dialed, ", "), "10.0.0.1 10.0.0.2:111, 10.0.0.1 10.0.0.2:600")
		f.port, f.dialed = 0, nil // the host does not answer
		s := newSite(t, options{records: records, dial: f.dial})
		nlm.NewMonitor(s.program).Announce()
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := len(f.dialed); n < 6 || n > 12 {
			t.Errorf("called %d times: %q", n, f.dialed)
		}
		s.end()
	})
}

// NOTIFY and FREE_ALL end the locks of the host that sends them, from a port of its system. They end those of no other
// host, and no lock that the host has got since (NLM-34, NLM-35).
func TestHostRestarts(t *testing.T) {
	says := map[string]func(h *host, name string, restarts int32){"NOTIFY": (*host).notify, "FREE_ALL": (*host).freeAll}
	for what, say := range says {
		t.Run(what, func(t *testing.T) {
			s := newSite(t, options{})
			s.rpc.Register(nlm.NewMonitor(s.program))
			a, b := s.host("a", "10.0.0.2:900", 1000), s.host("b", "10.0.0.3:900", 1000)
			w, other := want{1, 0, 10, true}, want{2, 0, 10, false}
			lock := func(restarts int32) wire.Stat4 {
				return a.res(wire.ProcLock, &wire.LockArgs4{Cookie: cookie, Exclusive: true, Lock: a.lock4(w), State: restarts})
			}
			is(t, "LOCK", lock(3), wire.Granted)
			say(b, "a", 5)
			is(t, "after a word of another host", b.test(other).Stat, wire.Denied)
			unprivileged := s.host("a", "10.0.0.2:9000", 1000)
			unprivileged.conn.Privileged = false
			say(unprivileged, "a", 5)
			is(t, "after a word of a user", b.test(other).Stat, wire.Denied)
			say(a, "a", 3)
			is(t, "after a word from before the LOCK", b.test(other).Stat, wire.Denied)
			say(a, "a", 5)
			is(t, "after the host's word", b.test(other).Stat, wire.Granted)
			is(t, "LOCK after it", lock(5), wire.Granted)
			say(a, "a", 5)
			is(t, "after the same word again", b.test(other).Stat, wire.Denied)
		})
	}
}

// The name decides only between several hosts at one address (NLM-36).
func TestNotifyByAnotherName(t *testing.T) {
	s := newSite(t, options{})
	s.rpc.Register(nlm.NewMonitor(s.program))
	a, c := s.host("a", "10.0.0.2:900", 1000), s.host("c", "10.0.0.2:901", 1000)
	is(t, "LOCK", a.lock(want{1, 0, 10, true}), wire.Granted)
	a.notify("a.example.org", 7)
	is(t, "the lock of the only host", c.lock(want{1, 0, 10, true}), wire.Granted)
	is(t, "LOCK", a.lock(want{1, 20, 10, true}), wire.Granted)
	a.notify("another", 9)
	is(t, "the lock of the first of two", c.test(want{1, 20, 10, true}).Stat, wire.Denied)
	a.notify("a", 9)
	is(t, "the lock of the named one", c.test(want{1, 20, 10, true}).Stat, wire.Granted)
	is(t, "the lock of the other one", a.test(want{1, 0, 10, true}).Stat, wire.Denied)
}

// A LOCK with a larger number of restarts ends no locks: the host may live. Only the first number counts by which the
// host's word is judged, and only if it comes from a port of the host's system (NLM-37).
func TestNumberOfRestartsInLock(t *testing.T) {
	s := newSite(t, options{})
	s.rpc.Register(nlm.NewMonitor(s.program))
	a, b := s.host("a", "10.0.0.2:900", 1000), s.host("b", "10.0.0.3:900", 1000)
	user := s.host("a", "10.0.0.2:9000", 1000)
	user.conn.Privileged = false
	lock := func(h *host, w want, restarts int32) wire.Stat4 {
		return h.res(wire.ProcLock, &wire.LockArgs4{Cookie: cookie, Exclusive: true, Lock: h.lock4(w), State: restarts})
	}
	first, second := want{1, 0, 10, true}, want{2, 20, 10, true}
	is(t, "LOCK of a user", lock(user, want{9, 90, 10, true}, 1<<30), wire.Granted)
	is(t, "LOCK without a number", lock(a, first, 0), wire.Granted)
	for _, restarts := range []int32{3, 1, 5, 1 << 30} {
		is(t, "LOCK with a number", lock(a, second, restarts), wire.Granted)
		is(t, "what it holds", b.test(first).Stat, wire.Denied)
	}
	a.notify("a", 3)
	is(t, "after a word from before the first number", b.test(first).Stat, wire.Denied)
	a.notify("a", 5)
	is(t, "after the host's word", b.test(first).Stat, wire.Granted)
}

// Datagrams in the name of many addresses do not take the places of clients that connect. A host that ends, or connects,
// leaves its place to another one (NLM-58).
func TestHostsOfDatagramsAreBounded(t *testing.T) {
	s := newSite(t, options{})
	datagrams := func(i int) *host {
		return s.datagrams("h", netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 900).String())
	}
	w, room := want{1, 0, 10, false}, 0
	for datagrams(room).lock(w) == wire.Granted {
		if room++; room > 5000 {
			t.Fatal("no bound")
		}
	}
	is(t, "hosts", room, 2048)
	is(t, "a client that connects", s.host("c", "10.0.0.2:900", 1000).lock(w), wire.Granted)
	is(t, "one more", datagrams(room).lock(w), wire.DeniedNoLocks)
	is(t, "one that is known", datagrams(0).lock(w), wire.Granted)
	s.state.ForgetHost(s.state.FindHost([]byte("h"), datagrams(1).conn.Peer.Addr()))
	is(t, "one more in the place of another", datagrams(room).lock(w), wire.Granted)
	is(t, "one more", datagrams(room+1).lock(w), wire.DeniedNoLocks)
	is(t, "a connection of one", s.host("h", "10.1.0.2:900", 1000).lock(w), wire.Granted)
	is(t, "one more in its place", datagrams(room+1).lock(w), wire.Granted)
}
