package nlm

import (
	"net/netip"
	"slices"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
)

// An answerKey names the GRANTED_MSGs of a lock: their cookie, and the address of the host that is called.
type answerKey struct {
	from   netip.Addr
	cookie string
}

// answers are the locks whose hosts have got a GRANTED_MSG. A GRANTED_RES counts until the lock is settled or taken back,
// also if tellByMessage does not wait for it any more (lateAnswer).
type answers struct {
	mu      sync.Mutex
	awaited map[answerKey]chan wire.Stat4
}

func (w *awaited) answerKey() answerKey { return answerKey{w.to.peer.Addr(), string(w.cookie)} }

// expect returns a channel that gets the status of the first GRANTED_RES for a lock.
func (a *answers) expect(w *awaited) <-chan wire.Stat4 {
	k := w.answerKey()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.awaited == nil {
		a.awaited = make(map[answerKey]chan wire.Stat4)
	}
	if a.awaited[k] == nil {
		a.awaited[k] = make(chan wire.Stat4, 1)
	}
	return a.awaited[k]
}

// forget ends the waiting for an answer about a lock that is settled or taken back. The caller holds granter.mu.
func (a *answers) forget(w *awaited) {
	k := w.answerKey()
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case a.awaited[k] <- wire.Granted: // tellByMessage ends
	default:
	}
	delete(a.awaited, k)
}

// expectNoMore is forget for a lock that was settled or taken back before the expect.
func (g *granter) expectNoMore(w *awaited) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.Contains(g.untold[w.host], w) {
		g.answers.forget(w)
	}
}

// lateAnswer returns a GRANTED_RES that has come when tellByMessage did not wait for it any more.
func (g *granter) lateAnswer(w *awaited) (wire.Stat4, bool) {
	g.mu.Lock()
	k := w.answerKey()
	g.mu.Unlock()
	g.answers.mu.Lock()
	defer g.answers.mu.Unlock()
	select {
	case stat := <-g.answers.awaited[k]: // a nil channel has none
		return stat, true
	default:
		return 0, false
	}
}

// grantedRes is GRANTED_RES (C702 §9): a host answers GRANTED_MSG. The answer counts only if it comes from the host's
// address, and has the random cookie of the call (cookieOf).
func (p *Program) grantedRes(c *rpc.Call) rpc.Outcome {
	var res wire.Res4
	if res.Decode(&c.Args); c.Args.Finish() != nil {
		return rpc.GarbageArgs
	}
	a := &p.granter.answers
	a.mu.Lock()
	defer a.mu.Unlock()
	if to := a.awaited[answerKey{c.Conn.Peer.Addr(), string(res.Cookie)}]; to != nil {
		select {
		case to <- res.Stat:
		default: // it has come before
		}
	}
	return rpc.Done
}
