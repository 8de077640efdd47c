package nlm_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A gated file system claims nothing before the gate is open.
type gated struct {
	*claiming
	gate chan struct{}
}

func (g gated) Claim(h vfs.Handle, start, length uint64, mode vfs.ClaimMode) error {
	<-g.gate
	return g.claiming.Claim(h, start, length, mode)
}

// A copy of a message that comes while the message runs has no effect, and so does not lock again behind an UNLOCK
// (NLM-57). It gets an empty reply, as each message does, because its host may wait for it on TCP.
func TestCopiesOfAMessageThatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, gate := &post{far: far{t: t, port: 4045}}, make(chan struct{})
		s := newSite(t, options{dial: p.dial, send: p.send, of: func(fs vfs.FileSystem) vfs.FileSystem {
			return gated{&claiming{FileSystem: fs}, gate}
		}})
		a, b := s.datagrams("a", "10.0.0.2:900"), s.datagrams("b", "10.0.0.3:900")
		w := want{1, 0, 10, true}
		var copies sync.WaitGroup
		for range 3 {
			message := a.message(wire.ProcLockMsg, &wire.LockArgs4{Cookie: []byte("one"), Exclusive: true, Lock: a.lock4(w)})
			copies.Go(func() {
				if end := a.run(message).End; end != rpctest.Sent {
					t.Errorf("a copy ends with %v", end)
				}
			})
			synctest.Wait()
		}
		close(gate)
		copies.Wait()
		var res wire.Res4
		p.one(t, wire.ProcLockRes, &res)
		is(t, "LOCK_MSG", res.Stat, wire.Granted)
		a.unlockMsg("two", w)
		a.lockMsg("one", w, false)
		is(t, "results", len(p.next()), 2)
		is(t, "LOCK of the other", b.lock(w), wire.Granted)
		s.end()
	})
}

// waits makes b wait for w by the LOCK_MSG "one", until a unlocks it and the server tells b.
func waits(t *testing.T, a, b *host, w want) {
	t.Helper()
	is(t, "LOCK", a.lock(w), wire.Granted)
	b.lockMsg("one", w, true)
	is(t, "UNLOCK", a.unlock(w), wire.Granted)
	synctest.Wait()
}

// A LOCK_MSG that was BLOCKED, and comes again when its lock has been granted, and unlocked or cancelled, does not lock again
// (NLM-50).
func TestRepeatedMessageOfALockThatWaited(t *testing.T) {
	for _, end := range []string{"GRANTED_RES", "UNLOCK", "CANCEL"} {
		messages(t, func(s *site, p *post, a, b *host) {
			w := want{1, 0, 10, true}
			waits(t, a, b, w)
			var args wire.TestArgs4
			all := p.next()
			args.Decode(xdr.NewDecoder(all[len(all)-1].args))
			switch end {
			case "GRANTED_RES":
				b.msg(wire.Version, wire.ProcGrantedRes, &wire.Res4{Cookie: args.Cookie, Stat: wire.Granted})
				synctest.Wait()
				fallthrough
			case "UNLOCK":
				b.unlockMsg("two", w)
			case "CANCEL":
				is(t, "CANCEL", b.cancel(w), wire.Granted)
			}
			b.lockMsg("one", w, true)
			synctest.Wait()
			is(t, end+": LOCK of the other", a.lock(w), wire.Granted)
		})
	}
}

// A host that has restarted may send the message again that it sent before: it is a new one, and locks. So is one that comes
// long after (NLM-50).
func TestMessageOfAHostThatHasRestarted(t *testing.T) {
	for _, how := range []string{"restart", "long after"} {
		messages(t, func(s *site, p *post, a, b *host) {
			w := want{1, 0, 10, true}
			a.lockMsg("one", w, false)
			a.unlockMsg("two", w)
			if how == "restart" {
				a.lockMsg("three", w, false)
				a.call(wire.ProcFreeAll, &wire.Notify4{Name: []byte("a")}, nil)
				is(t, "LOCK behind the restart", b.lock(w), wire.Granted)
				is(t, "UNLOCK", b.unlock(w), wire.Granted)
			} else {
				time.Sleep(6 * time.Minute)
			}
			a.lockMsg("one", w, false)
			is(t, how+": LOCK of the other", b.lock(w), wire.Denied)
		})
	}
}

// A LOCK_MSG that was BLOCKED, and comes again after the CANCEL of its lock, is DENIED, also when the granter has heard of
// the CANCEL: the owner does not have the lock (NLM-50).
func TestRepeatedMessageOfACancelledLock(t *testing.T) {
	messages(t, func(s *site, p *post, a, b *host) {
		w := want{1, 0, 10, true}
		waits(t, a, b, w)
		is(t, "CANCEL", b.cancel(w), wire.Granted)
		synctest.Wait()
		p.next()
		b.lockMsg("one", w, true)
		var res wire.Res4
		p.one(t, wire.ProcLockRes, &res)
		is(t, "LOCK_MSG that comes again", res.Stat, wire.Denied)
		is(t, "LOCK of the other", a.lock(w), wire.Granted)
	})
}
