package nlm

import (
	"net/netip"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
)

// An answerKey names a GRANTED_MSG: its cookie, and the address of the host that was called.
type answerKey struct {
	from   netip.Addr
	cookie string
}

// answers are the GRANTED_MSGs that wait for their GRANTED_RES.
type answers struct {
	mu      sync.Mutex
	awaited map[answerKey]chan wire.Stat4
}

// expect returns a channel that gets the status of the GRANTED_RES, and a function that ends the waiting.
func (a *answers) expect(k answerKey) (<-chan wire.Stat4, func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.awaited == nil {
		a.awaited = make(map[answerKey]chan wire.Stat4)
	}
	c := make(chan wire.Stat4, 1)
	a.awaited[k] = c
	return c, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.awaited, k)
	}
}

// grantedRes is GRANTED_RES (C702 §9): a host answers GRANTED_MSG. It counts only from the host's address, with the cookie
// of the call, which nobody can guess.
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
