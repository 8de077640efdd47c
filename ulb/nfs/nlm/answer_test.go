package nlm_test

import (
	"testing"
	"testing/synctest"
	"time"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
)

// A host that refuses a lock of which an earlier call may have told it keeps the lock, because the answer to that call may be
// lost. It may cancel it for a while (NLM-55).
func TestAnswerIsLost(t *testing.T) {
	w := want{1, 0, 10, true}
	for _, then := range []string{"nothing", "CANCEL", "UNLOCK"} {
		holds := func(t *testing.T, a, b *host) {
			time.Sleep(15 * time.Second)
			synctest.Wait()
			is(t, then+": LOCK of the other", a.lock(w), wire.Denied)
			switch then {
			case "nothing":
				time.Sleep(2 * time.Minute)
				is(t, "LOCK of the other later", a.lock(w), wire.Denied)
				is(t, "CANCEL of what the host has", b.cancel(w), wire.Denied)
				is(t, "UNLOCK", b.unlock(w), wire.Granted)
			case "CANCEL":
				is(t, "CANCEL", b.cancel(w), wire.Granted)
			case "UNLOCK":
				is(t, "UNLOCK", b.unlock(w), wire.Granted)
			}
			is(t, then+": LOCK when it is free", a.lock(w), wire.Granted)
			time.Sleep(2 * time.Minute)
			is(t, then+": LOCK of the host", b.lock(w), wire.Denied)
		}
		waiting(t, func(s *site, f *far, a, b *host) {
			answers := []error{errDeaf, nil}
			f.answer = func(*wire.TestArgs4) (wire.Stat4, error) {
				err := answers[0]
				answers = answers[1:]
				return wire.Denied, err
			}
			a.lock(w)
			b.block(w)
			a.unlock(w)
			holds(t, a, b)
		})
		messages(t, func(s *site, p *post, a, b *host) {
			a.lock(w)
			b.lockMsg("one", w, true)
			a.unlock(w)
			time.Sleep(14 * time.Second) // the next call comes 15 s after the first
			p.next()
			time.Sleep(2 * time.Second)
			var args wire.TestArgs4
			p.one(t, wire.ProcGrantedMsg, &args)
			b.msg(wire.Version, wire.ProcGrantedRes, &wire.Res4{Cookie: args.Cookie, Stat: wire.Denied})
			holds(t, a, b)
			is(t, "calls after the answer", len(p.next()), 0)
		})
	}
}

// An answer to GRANTED_MSG counts also when the server has given up the waiting for it, until it takes the lock back
// (NLM-55).
func TestAnswerIsLate(t *testing.T) {
	for _, after := range []time.Duration{7 * time.Second, 33 * time.Second} {
		messages(t, func(s *site, p *post, a, b *host) {
			w := want{1, 0, 10, true}
			a.lock(w)
			b.lockMsg("one", w, true)
			p.next()
			a.unlock(w)
			var args wire.TestArgs4
			p.one(t, wire.ProcGrantedMsg, &args)
			time.Sleep(after)
			p.next()
			b.msg(wire.Version, wire.ProcGrantedRes, &wire.Res4{Cookie: args.Cookie, Stat: wire.Granted})
			time.Sleep(2 * time.Minute)
			is(t, "calls after the answer", len(p.next()), 0)
			is(t, "LOCK of the other", a.lock(w), wire.Denied)
			is(t, "UNLOCK", b.unlock(w), wire.Granted)
			is(t, "LOCK when it is free", a.lock(w), wire.Granted)
		})
	}
}
