package nlm_test

import (
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
)

// A posted call is one that the server has sent to a host without awaiting results.
type posted struct {
	from, to  string
	procedure wire.Procedure
	version   uint32
	args      []byte
	size      int // of the datagram
}

// A post plays hosts that are called by messages, over UDP, or over TCP by the far.
type post struct {
	far
	mu   sync.Mutex
	sent []posted
}

func (p *post) send(from, to netip.AddrPort, message []byte) {
	d := xdr.NewDecoder(message)
	head := [6]uint32{} // XID, CALL, version of RPC, program, version, procedure
	for i := range head {
		head[i] = d.Uint32()
	}
	for range 2 { // credential and verifier
		d.Skip(4)
		d.Opaque(rpc.MaxAuthBytes)
	}
	if d.Err() != nil || head[1] != 0 || head[2] != 2 || head[3] != wire.Program {
		p.t.Errorf("a datagram that is no call: %x", message)
	}
	p.add(posted{from.String(), to.String(), wire.Procedure(head[5]), head[4], slices.Clone(d.Rest()), len(message)})
}

func (p *post) add(one posted) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, one)
}

// next returns the calls since the last time.
func (p *post) next() []posted {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.sent
	p.sent = nil
	return all
}

// one is next for one call, whose arguments it decodes.
func (p *post) one(t testing.TB, want wire.Procedure, args decoder) posted {
	t.Helper()
	all := p.next()
	if len(all) != 1 || all[0].procedure != want {
		t.Fatalf("calls to hosts: %+v, not one %v", all, want)
	}
	d := xdr.NewDecoder(all[0].args)
	if args.Decode(d); d.Finish() != nil {
		t.Fatalf("the arguments of %v do not decode", want)
	}
	return all[0]
}

// messages runs a test with hosts whose calls come over UDP.
func messages(t *testing.T, test func(s *site, p *post, a, b *host)) {
	synctest.Test(t, func(t *testing.T) {
		p := &post{far: far{t: t, port: 4045}}
		s := newSite(t, options{dial: p.dial, send: p.send})
		test(s, p, s.datagrams("a", "10.0.0.2:900"), s.datagrams("b", "10.0.0.3:900"))
		s.end()
	})
}

func (s *site) datagrams(name, address string) *host {
	h := s.host(name, address, 1000)
	h.conn.Transport = "udp"
	return h
}

type empty struct{}

func (empty) Decode(*xdr.Decoder) {}

func (h *host) msg(version uint32, p wire.Procedure, args encoder) {
	h.t.Helper()
	h.callOf(version, p, args, empty{})
}

func (h *host) lockMsg(cookie string, w want, block bool) {
	h.t.Helper()
	h.msg(wire.Version, wire.ProcLockMsg, &wire.LockArgs4{Cookie: []byte(cookie), Block: block, Exclusive: w.exclusive, Lock: h.lock4(w)})
}

func (h *host) unlockMsg(cookie string, w want) {
	h.t.Helper()
	h.msg(wire.Version, wire.ProcUnlockMsg, &wire.UnlockArgs4{Cookie: []byte(cookie), Lock: h.lock4(w)})
}

// The result of a call with _MSG is a call to the lock manager at the address from which it came, in the same version, with
// the same cookie, from the address that was called. The reply is empty (NLM-49).
func TestMessages(t *testing.T) {
	messages(t, func(s *site, p *post, a, b *host) {
		w := want{1, 0, 10, true}
		var res wire.Res4
		a.lockMsg("one", w, false)
		got := p.one(t, wire.ProcLockRes, &res)
		if got.from != "10.0.0.1:2049" || got.to != "10.0.0.2:4045" || got.version != 4 || res.Stat != wire.Granted || string(res.Cookie) != "one" {
			t.Errorf("%+v, %+v", got, res)
		}
		b.lockMsg("two", w, false)
		p.one(t, wire.ProcLockRes, &res)
		is(t, "LOCK_MSG of another host", res.Stat, wire.Denied)
		b.msg(3, wire.ProcTestMsg, &wire.TestArgs3{Cookie: []byte("three"), Lock: b.lock3(w)})
		var holder wire.TestRes3
		if got := p.one(t, wire.ProcTestRes, &holder); got.version != 3 || holder.Reply.Stat != wire.Denied || holder.Reply.Holder.SVID != 1 {
			t.Errorf("TEST_RES %+v, %+v", got, holder)
		}
		b.msg(wire.Version, wire.ProcCancelMsg, &wire.CancelArgs4{Cookie: []byte("four"), Lock: b.lock4(w)})
		p.one(t, wire.ProcCancelRes, &res)
		is(t, "CANCEL_MSG", res.Stat, wire.Denied)
		a.unlockMsg("five", w)
		p.one(t, wire.ProcUnlockRes, &res)
		is(t, "UNLOCK_MSG", res.Stat, wire.Granted)
		is(t, "LOCK when it is free", b.lock(w), wire.Granted)
		is(t, "questions to rpcbind", len(p.dialed), 3) // two hosts, one of which uses two versions
	})
}

// A message that comes again has the same result, and is not executed again (NLM-50).
func TestRepeatedMessages(t *testing.T) {
	messages(t, func(s *site, p *post, a, b *host) {
		w := want{1, 0, 10, true}
		var res wire.Res4
		a.lockMsg("one", w, false)
		a.unlockMsg("two", w)
		p.next()
		a.lockMsg("one", w, false)
		p.one(t, wire.ProcLockRes, &res)
		is(t, "LOCK_MSG that comes again", res.Stat, wire.Granted)
		is(t, "its cookie", string(res.Cookie), "one")
		is(t, "LOCK behind it", b.lock(w), wire.Granted)
		a.lockMsg("three", w, false)
		p.one(t, wire.ProcLockRes, &res)
		is(t, "a new LOCK_MSG", res.Stat, wire.Denied)
		for i := range 8 {
			a.lockMsg(strings.Repeat("x", i+10), want{1, 100, 1, true}, false)
		}
		p.next()
		is(t, "UNLOCK", b.unlock(w), wire.Granted)
		a.lockMsg("three", w, false)
		p.one(t, wire.ProcLockRes, &res)
		is(t, "one that is forgotten", res.Stat, wire.Granted)
	})
}

// A host that has asked by LOCK_MSG hears of its lock by GRANTED_MSG. Its GRANTED_RES counts, and no other one: from another
// address, or with another cookie (NLM-51).
func TestGrantedByMessage(t *testing.T) {
	for _, refuses := range []bool{false, true} {
		messages(t, func(s *site, p *post, a, b *host) {
			w := want{1, 0, 10, true}
			is(t, "LOCK", a.lock(w), wire.Granted)
			var res wire.Res4
			b.lockMsg("one", w, true)
			p.one(t, wire.ProcLockRes, &res)
			is(t, "LOCK_MSG", res.Stat, wire.Blocked)
			is(t, "UNLOCK", a.unlock(w), wire.Granted)
			var args wire.TestArgs4
			if got := p.one(t, wire.ProcGrantedMsg, &args); got.to != "10.0.0.3:4045" || string(args.Lock.CallerName) != "b" || args.Lock.Length != 10 {
				t.Errorf("GRANTED_MSG %+v, %+v", got, args)
			}
			a.msg(wire.Version, wire.ProcGrantedRes, &wire.Res4{Cookie: args.Cookie, Stat: wire.Denied})
			b.msg(wire.Version, wire.ProcGrantedRes, &wire.Res4{Cookie: []byte("guessed"), Stat: wire.Denied})
			is(t, "after forged words", a.lock(w), wire.Denied)
			answer := wire.Granted
			if refuses {
				answer = wire.Denied
			}
			b.msg(wire.Version, wire.ProcGrantedRes, &wire.Res4{Cookie: args.Cookie, Stat: answer})
			synctest.Wait()
			time.Sleep(time.Minute)
			is(t, "calls after the answer", len(p.next()), 0)
			if !refuses {
				is(t, "LOCK of the other", a.lock(w), wire.Denied)
				is(t, "UNLOCK", b.unlock(w), wire.Granted)
			}
			is(t, "LOCK when it is free", a.lock(w), wire.Granted)
		})
	}
}

// A host that does not answer GRANTED_MSG is called three times, and then loses the lock to the next one, as with GRANTED
// (NLM-51).
func TestGrantedMessageWithoutAnswer(t *testing.T) {
	messages(t, func(s *site, p *post, a, b *host) {
		w := want{1, 0, 10, true}
		is(t, "LOCK", a.lock(w), wire.Granted)
		b.lockMsg("one", w, true)
		p.next()
		is(t, "UNLOCK", a.unlock(w), wire.Granted)
		time.Sleep(2 * time.Minute)
		is(t, "GRANTED_MSG", len(p.next()), 3)
		is(t, "LOCK when it is free", a.lock(w), wire.Granted)
	})
}

// A datagram may name a machine that did not send it. What the server sends for it is not longer, and without a port in the
// rpcbind there, the server asks once in five seconds, however many come (NLM-52).
func TestMessagesDoNotAmplify(t *testing.T) {
	messages(t, func(s *site, p *post, a, b *host) {
		w := want{1, 0, 10, true}
		l := a.lock4(w)
		l.OH = []byte(strings.Repeat("long", 250))
		a.msg(wire.Version, wire.ProcLockMsg, &wire.LockArgs4{Cookie: []byte("one"), Exclusive: true, Lock: l})
		p.next()
		args := wire.TestArgs4{Cookie: []byte("two"), Lock: b.lock4(w)}
		b.msg(wire.Version, wire.ProcTestMsg, &args)
		var res wire.TestRes4
		got := p.one(t, wire.ProcTestRes, &res)
		if asked := len(b.message(wire.ProcTestMsg, &args)); got.size > asked || res.Reply.Stat != wire.Denied || len(res.Reply.Holder.OH) > 0 || res.Reply.Holder.Length != 10 {
			t.Errorf("%d bytes for %d: %+v", got.size, asked, res)
		}
		asked := b.message(wire.ProcTest, &args)
		reply := b.run(asked)
		d, err := reply.Results()
		if err != nil {
			t.Fatal(err)
		}
		if res.Decode(d); d.Finish() != nil || len(reply.Reply) > len(asked) || res.Reply.Stat != wire.Denied || res.Reply.Holder.Length != 10 {
			t.Errorf("TEST: %d bytes for %d: %+v", len(reply.Reply), len(asked), res)
		}
		p.far.mu.Lock()
		p.port = 0
		p.far.mu.Unlock()
		c := s.datagrams("c", "10.0.0.4:900")
		before := len(p.dialed)
		for i := range 100 {
			c.lockMsg(strings.Repeat("x", i+1), w, false)
			if i >= 50 { // the others come while the server asks
				synctest.Wait()
			}
		}
		is(t, "questions", len(p.dialed)-before, 1)
		is(t, "calls to a host without a port", len(p.next()), 0)
		time.Sleep(6 * time.Second)
		c.lockMsg("again", w, false)
		synctest.Wait()
		is(t, "questions later", len(p.dialed)-before, 2)
	})
}

// However many strangers send messages, the results of clients are remembered, and the ports of most of them (NLM-54).
func TestStrangersLeaveTheMemoryToClients(t *testing.T) {
	messages(t, func(s *site, p *post, a, b *host) {
		w := want{1, 0, 10, true}
		a.lockMsg("one", w, false)
		a.unlockMsg("two", w)
		p.next()
		is(t, "questions", len(p.dialed), 1)
		for i := range 5000 {
			stranger := s.datagrams("x", netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 900).String())
			l := stranger.lock4(w)
			l.FileHandle = []byte("guessed")
			stranger.msg(wire.Version, wire.ProcLockMsg, &wire.LockArgs4{Cookie: []byte("x"), Lock: l})
		}
		p.next()
		a.lockMsg("one", w, false)
		is(t, "results", len(p.next()), 1)
		is(t, "LOCK behind a LOCK_MSG that comes again", b.lock(w), wire.Granted)
	})
}

// Over TCP, too, hosts send no replies to LOCK_RES and GRANTED_MSG. The server sends the next call without waiting for them,
// and hears GRANTED_RES (NLM-56).
func TestMessagesOverTCPHaveNoReplies(t *testing.T) {
	messages(t, func(s *site, p *post, _, _ *host) {
		a, b := s.host("a", "10.0.0.2:900", 1000), s.host("b", "10.0.0.3:900", 1000)
		p.silent = func(x *rpc.Exchange, args []byte) bool {
			if x.Program == wire.Program {
				p.add(posted{"", "", wire.Procedure(x.Procedure), x.Version, slices.Clone(args), 0})
			}
			return x.Program == wire.Program
		}
		w := want{1, 0, 10, true}
		is(t, "LOCK", a.lock(w), wire.Granted)
		for i := range 4 {
			b.lockMsg(strings.Repeat("x", i+1), want{1, 100, 1, true}, false)
		}
		time.Sleep(2 * time.Second)
		is(t, "LOCK_RES", len(p.next()), 4)
		b.lockMsg("waits", w, true)
		time.Sleep(2 * time.Second)
		var res wire.Res4
		p.one(t, wire.ProcLockRes, &res)
		is(t, "LOCK_MSG", res.Stat, wire.Blocked)
		is(t, "UNLOCK", a.unlock(w), wire.Granted)
		var args wire.TestArgs4
		p.one(t, wire.ProcGrantedMsg, &args)
		b.msg(wire.Version, wire.ProcGrantedRes, &wire.Res4{Cookie: args.Cookie, Stat: wire.Granted})
		time.Sleep(2 * time.Minute)
		is(t, "calls after the answer", len(p.next()), 0)
		is(t, "the lock", a.lock(w), wire.Denied)
	})
}
