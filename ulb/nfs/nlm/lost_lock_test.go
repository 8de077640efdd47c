package nlm_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpcbind"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

func (h *host) known() *state.Client { return h.state.FindHost([]byte(h.name), h.conn.Peer.Addr()) }

// loses has the ways to lose w, a lock that the server has taken for a host. The server has not told the host yet.
var loses = map[string]func(h *host, w want){
	"CANCEL":      func(h *host, w want) { is(h.t, "CANCEL", h.cancel(w), wire.Granted) },
	"UNLOCK":      func(h *host, w want) { is(h.t, "UNLOCK", h.unlock(w), wire.Granted) },
	"its restart": func(h *host, w want) { h.state.ForgetHost(h.known()) },
	"a release": func(h *host, w want) {
		is(h.t, "opens taken", h.state.Release(state.Which{Client: h.known()}), 1)
	},
}

// The server tells a host of no lock that the host has lost meanwhile: while the server asked the host's rpcbind, or after a
// call without an answer. The host may wait for the same lock once more. It would take the word for that lock, which another
// host has (NLM-59).
func TestLostLockIsNotTold(t *testing.T) {
	for how, lose := range loses {
		for _, message := range []bool{false, true} {
			for _, early := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, by message: %v, before the first call: %v", how, message, early), func(t *testing.T) {
					messages(t, func(s *site, p *post, a, b *host) {
						w, asks := want{1, 0, 10, true}, false
						losesIt := func() {
							lose(b, w)
							is(t, "LOCK of the other", a.lock(w), wire.Granted)
							is(t, "the same LOCK once more", b.block(w), wire.Blocked)
						}
						p.silent = func(x *rpc.Exchange, _ []byte) bool {
							if x.Program == rpcbind.Program && asks {
								asks = false
								losesIt()
							}
							return false
						}
						p.answer = func(*wire.TestArgs4) (wire.Stat4, error) { return 0, errDeaf }
						is(t, "LOCK", a.lock(w), wire.Granted)
						if message {
							b.lockMsg("one", w, true)
						} else {
							is(t, "LOCK that waits", b.block(w), wire.Blocked)
						}
						synctest.Wait()
						time.Sleep(11 * time.Minute) // the server forgets the port
						p.next()
						asks = early
						is(t, "UNLOCK", a.unlock(w), wire.Granted)
						calls, messages := 0, 0
						count := func() int { messages += len(p.next()); return messages + len(p.grants()) }
						if !early {
							calls = 1
							is(t, "calls before the host has lost it", count(), calls)
							losesIt()
						}
						is(t, "calls", count(), calls)
						is(t, "locks of which the server has yet to tell", len(s.program.Untold()), 0)
						time.Sleep(time.Minute)
						is(t, "calls a minute later", count(), calls)
					})
				})
			}
		}
	}
}
