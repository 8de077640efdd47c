package nlm_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpcbind"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nsmwire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A far plays the rpcbind and the lock manager of hosts: it answers what the server calls.
type far struct {
	t        testing.TB
	mu       sync.Mutex
	dialed   []string                                    // addresses
	granted  []wire.TestArgs4                            // arguments of GRANTED calls
	answer   func(a *wire.TestArgs4) (wire.Stat4, error) // nil: Granted
	notified []nsmwire.Status                            // arguments of NOTIFY calls
	port     uint16                                      // of the lock manager; 0: it is not registered
	silent   func(x *rpc.Exchange, args []byte) bool     // reports whether a call has no reply
}

var errDeaf = errors.New("no answer")

func (f *far) dial(from netip.Addr) rpc.Dialer {
	return func(_ context.Context, network, address string) (rpc.Client, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.dialed = append(f.dialed, from.String()+" "+address)
		return f, nil
	}
}

func (f *far) Close() {}
func (f *far) Cancel(x *rpc.Exchange, err error) {
	x.Err = err
	x.Done(x)
}
func (f *far) grants() (all []wire.TestArgs4) { f.mu.Lock(); defer f.mu.Unlock(); return f.granted }

func (f *far) Start(x *rpc.Exchange) {
	args, res := xdr.NewWriter(make([]byte, 0, 8192)), xdr.NewWriter(make([]byte, 0, 8192))
	x.Args(args)
	if f.silent != nil && f.silent(x, args.Bytes()) {
		return
	}
	f.mu.Lock()
	switch {
	case x.Program == rpcbind.Program && f.port == 0:
		res.String("")
	case x.Program == rpcbind.Program:
		res.String(rpcbind.UniversalAddress(netip.AddrPortFrom(netip.MustParseAddr("192.0.2.99"), f.port)))
	case x.Program == nsmwire.Program:
		var n nsmwire.Status
		n.Decode(xdr.NewDecoder(args.Bytes()))
		f.notified = append(f.notified, n)
	default:
		var a wire.TestArgs4
		a.Decode(xdr.NewDecoder(args.Bytes()))
		f.granted = append(f.granted, a)
		stat, err := wire.Granted, error(nil)
		if f.answer != nil {
			f.mu.Unlock()
			stat, err = f.answer(&a)
			f.mu.Lock()
		}
		x.Err = err
		(&wire.Res4{Cookie: a.Cookie, Stat: stat}).Encode(res)
	}
	f.mu.Unlock()
	x.Results = *xdr.NewDecoder(res.Bytes())
	x.Done(x)
}

// waiting runs a test in a bubble of synctest with two hosts and a far. The time in it passes only while nothing
// else happens.
func waiting(t *testing.T, test func(s *site, f *far, a, b *host)) {
	synctest.Test(t, func(t *testing.T) {
		f := &far{t: t, port: 4045}
		s := newSite(t, options{dial: f.dial})
		test(s, f, s.host("a", "10.0.0.2:900", 1000), s.host("b", "10.0.0.3:900", 1000))
		s.end()
	})
}

func (h *host) block(w want) wire.Stat4 {
	h.t.Helper()
	return h.res(wire.ProcLock, &wire.LockArgs4{Cookie: cookie, Block: true, Exclusive: w.exclusive, Lock: h.lock4(w)})
}

// A host that waits for a lock is told when it has it: at the address from which it called, from the address that it
// called, at the port that its rpcbind names, with the lock as it was asked for (NLM-20, NLM-21).
func TestGranted(t *testing.T) {
	waiting(t, func(s *site, f *far, a, b *host) {
		w := want{1, 0, toEnd, true}
		is(t, "LOCK", a.lock(w), wire.Granted)
		is(t, "LOCK that waits", b.block(w), wire.Blocked)
		is(t, "LOCK that does not wait", b.lock(want{2, 0, 1, true}), wire.Denied)
		synctest.Wait()
		is(t, "calls before the UNLOCK", len(f.grants()), 0)
		is(t, "UNLOCK", a.unlock(w), wire.Granted)
		synctest.Wait()
		got := f.grants()
		if len(got) != 1 {
			t.Fatalf("%d GRANTED", len(got))
		}
		l, asked := got[0].Lock, b.lock4(w)
		if !got[0].Exclusive || string(l.FileHandle) != string(asked.FileHandle) || string(l.OH) != string(asked.OH) ||
			l.SVID != 1 || l.Offset != 0 || l.Length != toEnd || string(l.CallerName) != "b" {
			t.Errorf("GRANTED %+v", got[0])
		}
		if want := []string{"10.0.0.1 10.0.0.3:111", "10.0.0.1 10.0.0.3:4045"}; len(f.dialed) != 2 || f.dialed[0] != want[0] || f.dialed[1] != want[1] {
			t.Errorf("called %q, not %q", f.dialed, want)
		}
		is(t, "the lock", a.lock(w), wire.Denied)
		is(t, "UNLOCK of what was waited for", b.unlock(w), wire.Granted)
		is(t, "LOCK when it is free", a.lock(w), wire.Granted)
	})
}

// The port is asked for once in ten minutes, and again if nothing answers there (NLM-22).
func TestPortIsRemembered(t *testing.T) {
	waiting(t, func(s *site, f *far, a, b *host) {
		w := want{1, 0, toEnd, true}
		for range 3 {
			a.lock(w)
			b.block(w)
			a.unlock(w)
			synctest.Wait()
			b.unlock(w)
		}
		is(t, "connections", len(f.dialed), 4)
		time.Sleep(11 * time.Minute)
		a.lock(w)
		b.block(w)
		a.unlock(w)
		synctest.Wait()
		is(t, "connections after 11 minutes", len(f.dialed), 6)
	})
}

// Hosts that wait get the lock in the order of their LOCKs. If one answers that it does not wait, the next one gets it
// (NLM-23).
func TestOrderAndRefusal(t *testing.T) {
	waiting(t, func(s *site, f *far, a, b *host) {
		c := s.host("c", "10.0.0.4:900", 1000)
		w := want{1, 0, 10, true}
		a.lock(w)
		is(t, "b", b.block(w), wire.Blocked)
		is(t, "c", c.block(w), wire.Blocked)
		f.answer = func(g *wire.TestArgs4) (wire.Stat4, error) {
			if string(g.Lock.CallerName) == "b" {
				return wire.Denied, nil
			}
			return wire.Granted, nil
		}
		a.unlock(w)
		synctest.Wait()
		var names string
		for _, g := range f.grants() {
			names += string(g.Lock.CallerName)
		}
		is(t, "called", names, "bc")
		is(t, "b has nothing to cancel", b.cancel(w), wire.Denied)
		got := a.test(w)
		is(t, "the holder", string(got.Holder.OH), "owner at c")
	})
}

// A host that does not answer is called three times, 10 s apart. It keeps the lock until 31 s after the first call, also if
// its address refuses calls at once: a Linux client polls each 30 s. Then the next one gets the lock (NLM-24).
func TestHostThatDoesNotAnswer(t *testing.T) {
	for _, deaf := range []string{"rpcbind", "lock manager"} {
		waiting(t, func(s *site, f *far, a, b *host) {
			w := want{1, 0, 10, true}
			a.lock(w)
			b.block(w)
			if deaf == "rpcbind" {
				f.port = 0
			} else {
				f.answer = func(*wire.TestArgs4) (wire.Stat4, error) { return 0, errDeaf }
			}
			a.unlock(w)
			time.Sleep(30500 * time.Millisecond)
			synctest.Wait()
			is(t, "while the host may poll", a.lock(w), wire.Denied)
			time.Sleep(time.Second)
			synctest.Wait()
			is(t, "afterwards", a.lock(w), wire.Granted)
			time.Sleep(time.Minute)
			if calls := len(f.grants()); deaf != "rpcbind" && calls != 3 {
				t.Errorf("%d calls", calls)
			}
		})
	}
}

// A host that asks again has the lock, and is not called any more; what it then unlocks stays unlocked (NLM-25).
func TestHostAsksAgain(t *testing.T) {
	waiting(t, func(s *site, f *far, a, b *host) {
		w := want{1, 0, 10, true}
		a.lock(w)
		b.block(w)
		f.answer = func(*wire.TestArgs4) (wire.Stat4, error) { return 0, errDeaf }
		a.unlock(w)
		synctest.Wait()
		is(t, "the same LOCK again", b.block(w), wire.Granted)
		is(t, "UNLOCK", b.unlock(w), wire.Granted)
		is(t, "LOCK of the other", a.lock(w), wire.Granted)
		time.Sleep(time.Minute)
		is(t, "calls", len(f.grants()), 1)
		is(t, "the holder", string(b.test(w).Holder.OH), "owner at a")
	})
}

// CANCEL ends the waiting, also while the host is being told: then it unlocks (NLM-26).
func TestCancel(t *testing.T) {
	waiting(t, func(s *site, f *far, a, b *host) {
		w := want{1, 0, 10, true}
		is(t, "CANCEL of nothing", b.cancel(w), wire.Denied)
		a.lock(w)
		b.block(w)
		is(t, "CANCEL of another range", b.cancel(want{1, 0, 9, true}), wire.Denied)
		is(t, "CANCEL", b.cancel(w), wire.Granted)
		is(t, "CANCEL again", b.cancel(w), wire.Denied)
		a.unlock(w)
		synctest.Wait()
		is(t, "calls", len(f.grants()), 0)

		a.lock(w)
		b.block(w)
		f.answer = func(*wire.TestArgs4) (wire.Stat4, error) {
			is(t, "CANCEL that crosses GRANTED", b.cancel(w), wire.Granted)
			is(t, "LOCK of the other", a.lock(w), wire.Granted)
			return wire.Denied, nil
		}
		a.unlock(w)
		synctest.Wait()
		is(t, "the holder", string(b.test(w).Holder.OH), "owner at a")
	})
}

// A lock that is granted to a host that does not know of it is taken back: its owner has again what it held before, and
// nothing less (NLM-41).
func TestWhatTheOwnerHeldBeforeStays(t *testing.T) {
	deaf := func(*wire.TestArgs4) (wire.Stat4, error) { return 0, errDeaf }
	denies := func(*wire.TestArgs4) (wire.Stat4, error) { return wire.Denied, nil }
	read, write := want{1, 0, 10, false}, want{1, 0, 10, true}
	for _, claims := range []bool{false, true} {
		for end, answer := range map[string]func(*wire.TestArgs4) (wire.Stat4, error){"silence": deaf, "DENIED": denies, "CANCEL": deaf, "CANCEL in GRANTED": nil} {
			waiting(t, func(s *site, f *far, a, b *host) {
				if claims {
					s.end()
					s = newSite(t, options{dial: f.dial, of: func(fs vfs.FileSystem) vfs.FileSystem { return &claiming{FileSystem: fs} }})
					a, b = s.host("a", "10.0.0.2:900", 1000), s.host("b", "10.0.0.3:900", 1000)
				}
				cancel := func() { is(t, "CANCEL", b.cancel(write), wire.Granted) }
				if f.answer = answer; answer == nil {
					f.answer = func(*wire.TestArgs4) (wire.Stat4, error) { cancel(); return wire.Denied, nil }
				}
				is(t, "a reads", a.lock(read), wire.Granted)
				is(t, "b reads", b.lock(want{1, 0, 5, false}), wire.Granted)
				is(t, "b waits", b.block(write), wire.Blocked)
				is(t, "UNLOCK", a.unlock(read), wire.Granted)
				synctest.Wait()
				if end == "CANCEL" {
					cancel()
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				is(t, end+": a writes where b reads", a.lock(write), wire.Denied)
				is(t, end+": a reads", a.lock(read), wire.Granted)
				is(t, end+": a writes elsewhere", a.lock(want{1, 5, 5, true}), wire.Granted)
				is(t, end+": b unlocks", b.unlock(write), wire.Granted)
				is(t, end+": a writes", a.lock(write), wire.Granted)
				s.end()
			})
		}
	}
}

// UNLOCK ends the waiting of the same owner in the range, whether it holds something in the file or not, and lets those
// behind it have what it waited for (NLM-42).
func TestUnlockEndsTheWaiting(t *testing.T) {
	for _, holds := range []bool{false, true} {
		waiting(t, func(s *site, f *far, a, b *host) {
			c := s.host("c", "10.0.0.4:900", 1000)
			if holds {
				is(t, "b holds", b.lock(want{1, 100, 10, true}), wire.Granted)
			}
			is(t, "a holds", a.lock(want{1, 0, 1, true}), wire.Granted)
			is(t, "a holds another part", a.lock(want{1, 5, 1, true}), wire.Granted)
			is(t, "b waits", b.block(want{1, 0, 10, true}), wire.Blocked)
			is(t, "b waits elsewhere", b.block(want{2, 0, 1, true}), wire.Blocked)
			is(t, "c waits behind b", c.block(want{1, 5, 5, true}), wire.Blocked)
			is(t, "a unlocks what c wants", a.unlock(want{1, 5, 1, true}), wire.Granted)
			synctest.Wait()
			is(t, "calls while b waits", len(f.grants()), 0)
			is(t, "b unlocks", b.unlock(want{1, 0, 10, false}), wire.Granted)
			synctest.Wait()
			is(t, "b waits no more", b.cancel(want{1, 0, 10, true}), wire.Denied)
			if got := f.grants(); len(got) != 1 || string(got[0].Lock.CallerName) != "c" {
				t.Errorf("granted %+v", got)
			}
			is(t, "a unlocks", a.unlock(want{1, 0, 1, true}), wire.Granted)
			synctest.Wait()
			if got := f.grants(); len(got) != 2 || got[1].Lock.SVID != 2 {
				t.Errorf("granted %+v", got)
			}
		})
	}
}

// A host that has restarted waits for nothing, and keeps nothing from those behind it (NLM-27).
func TestWaiterOfAHostThatIsForgotten(t *testing.T) {
	waiting(t, func(s *site, f *far, a, b *host) {
		w := want{1, 0, 10, true}
		a.lock(w)
		b.block(w)
		s.state.ForgetHost(s.state.FindHost([]byte("b"), b.conn.Peer.Addr()))
		a.unlock(w)
		synctest.Wait()
		is(t, "calls", len(f.grants()), 0)
		if u := s.state.Usage(); u.Waiters+u.Locks+u.Opens > 0 {
			t.Errorf("left over: %+v", u)
		}

		c := s.host("c", "10.0.0.4:900", 1000)
		is(t, "LOCK", a.lock(want{1, 0, 1, true}), wire.Granted)
		is(t, "LOCK", a.lock(want{1, 5, 1, true}), wire.Granted)
		is(t, "LOCK that waits", b.block(w), wire.Blocked)
		is(t, "LOCK that waits behind it", c.block(want{1, 5, 5, true}), wire.Blocked)
		is(t, "UNLOCK", a.unlock(want{1, 5, 1, true}), wire.Granted)
		s.state.ForgetHost(s.state.FindHost([]byte("b"), b.conn.Peer.Addr()))
		synctest.Wait()
		is(t, "calls to the one behind it", len(f.grants()), 1)
	})
}

// A lock that a process of this machine has is asked for again and again, once however often the host repeats its LOCK
// (NLM-28).
func TestWaitingForALocalProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, fs := &far{t: t, port: 4045}, &claiming{}
		s := newSite(t, options{dial: f.dial, of: func(below vfs.FileSystem) vfs.FileSystem { fs.FileSystem = below; return fs }})
		a := s.host("a", "10.0.0.2:900", 1000)
		w := want{1, 0, 10, true}
		fs.process(5, 1, vfs.ClaimWrite)
		for range 5 {
			is(t, "LOCK", a.block(w), wire.Blocked)
		}
		asked := fs.count()
		time.Sleep(21 * time.Second)
		synctest.Wait()
		if n := fs.count() - asked; n > 2*11 {
			t.Errorf("%d claims in 21 s", n)
		}
		is(t, "calls", len(f.grants()), 0)
		fs.process(5, 1, vfs.ClaimNone)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		is(t, "calls when the process has let go", len(f.grants()), 1)
		is(t, "UNLOCK", a.unlock(w), wire.Granted)
		s.end()
		if u := s.state.Usage(); u.Waiters+u.Locks+u.Opens > 0 {
			t.Errorf("left over: %+v", u)
		}
	})
}

// Several hosts that wait for the same process ask for the lock once in 2 s each, and not at each other's refusals. All of
// them get it in turn when the process lets go (NLM-43).
func TestSeveralWaitForALocalProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, fs := &far{t: t, port: 4045}, &claiming{}
		s := newSite(t, options{dial: f.dial, of: func(below vfs.FileSystem) vfs.FileSystem { fs.FileSystem = below; return fs }})
		a, b, c := s.host("a", "10.0.0.2:900", 1000), s.host("b", "10.0.0.3:900", 1000), s.host("c", "10.0.0.4:900", 1000)
		w, all := want{1, 0, 10, true}, []*host{a, b}
		fs.process(5, 1, vfs.ClaimWrite)
		is(t, "LOCK of a part that is free", c.lock(want{1, 0, 1, true}), wire.Granted)
		for _, h := range all {
			is(t, "LOCK", h.block(w), wire.Blocked)
		}
		is(t, "UNLOCK of the part", c.unlock(want{1, 0, 1, true}), wire.Granted)
		for _, h := range all {
			is(t, "LOCK", h.block(w), wire.Blocked)
		}
		asked := fs.count()
		time.Sleep(21 * time.Second)
		synctest.Wait()
		if n := fs.count() - asked; n > 2*2*11 || n < 2*10 {
			t.Errorf("%d claims in 21 s", n)
		}
		fs.process(5, 1, vfs.ClaimNone)
		for range all {
			time.Sleep(5 * time.Second)
			synctest.Wait()
			got := f.grants()
			is(t, "UNLOCK", all[got[len(got)-1].Lock.CallerName[0]-'a'].unlock(w), wire.Granted)
		}
		is(t, "calls", len(f.grants()), 2)
		s.end()
		if u := s.state.Usage(); u.Waiters+u.Locks+u.Opens > 0 {
			t.Errorf("left over: %+v", u)
		}
	})
}

// A host that waits gets its lock also if it cannot be taken when it becomes free, for a reason that passes (NLM-44).
func TestTakingFailsForATime(t *testing.T) {
	for name, err := range map[string]error{"delay": vfs.ErrDelay, "no locks": syscall.ENOLCK, "no export": nil} {
		synctest.Test(t, func(t *testing.T) {
			f, fs := &far{t: t, port: 4045}, &claiming{}
			s := newSite(t, options{dial: f.dial, of: func(below vfs.FileSystem) vfs.FileSystem { fs.FileSystem = below; return fs }})
			a, b := s.host("a", "10.0.0.2:900", 1000), s.host("b", "10.0.0.3:900", 1000)
			w := want{1, 0, 10, true}
			exports := func(all ...*export.Export) {
				if err == nil {
					if err := s.table.Replace(all); err != nil {
						t.Fatal(err)
					}
				}
			}
			is(t, "LOCK", a.lock(w), wire.Granted)
			is(t, "LOCK that waits", b.block(w), wire.Blocked)
			fs.fail(err)
			if err == nil {
				is(t, "another LOCK that waits", b.block(want{2, 0, 10, true}), wire.Blocked)
				exports()
				s.state.ForgetHost(s.state.FindHost([]byte("a"), a.conn.Peer.Addr()))
			} else {
				is(t, "UNLOCK", a.unlock(w), wire.Granted)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			is(t, name+": calls", len(f.grants()), 0)
			fs.fail(nil)
			exports(s.export)
			time.Sleep(3 * time.Second)
			synctest.Wait()
			is(t, name+": calls when it has passed", len(f.grants()), 1)
			is(t, name+": the lock", a.lock(w), wire.Denied)
			s.end()
		})
	}
}

// Hosts that do not answer keep those of other addresses from nothing, however many of one address there are (NLM-29).
func TestSilentHostsKeepFewGoroutines(t *testing.T) {
	waiting(t, func(s *site, f *far, a, b *host) {
		silent := make(chan struct{})
		f.answer = func(g *wire.TestArgs4) (wire.Stat4, error) {
			if g.Lock.CallerName[0] == 's' {
				<-silent
				return 0, errDeaf
			}
			return wire.Granted, nil
		}
		w := want{1, 0, 10, false}
		a.lock(want{1, 0, 10, true})
		for i := range 50 {
			is(t, "LOCK", s.host(fmt.Sprint("s", i), "10.0.0.9:900", 1000).block(w), wire.Blocked)
		}
		is(t, "LOCK of the last", b.block(w), wire.Blocked)
		a.unlock(want{1, 0, 10, true})
		synctest.Wait()
		told, toB := f.grants(), 0
		for _, g := range told {
			if string(g.Lock.CallerName) == "b" {
				toB++
			}
		}
		if len(told) != 5 || toB != 1 {
			t.Errorf("%d calls, %d to b", len(told), toB)
		}
		close(silent)
		time.Sleep(time.Minute)
	})
}
