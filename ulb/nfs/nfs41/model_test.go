package nfs41

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// A modelSlot is the expected content of a slot.
type modelSlot struct {
	sequence uint32
	used     bool
	root     int // the number of PUTROOTFHs in the latest request
	cached   bool
	reply    []byte
}

// For any order of requests, slots reply as the model does.
func TestSlotsAgainstAModel(t *testing.T) {
	site, m := site(t, Config{}, state.Config{})
	p := site.Peer(1)
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		s := newClientSession(p, fmt.Sprint(n))
		var model [8]modelSlot
		t.Repeat(map[string]func(*rapid.T){
			"request": func(t *rapid.T) {
				slot := rapid.Uint32Range(0, 8).Draw(t, "slot")
				cache := rapid.Bool().Draw(t, "cache")
				roots := rapid.IntRange(0, 3).Draw(t, "operations")
				delta := rapid.SampledFrom([]uint32{0, 1, 1, 1, 2, 1<<32 - 1}).Draw(t, "step")
				var l *modelSlot
				seq := delta
				if slot < 8 {
					l = &model[slot]
					seq += l.sequence
				}
				ops := []nfs4test.Op{op(wire.OpSequence, &wire.Sequence4Args{Sessionid: s.id, Sequenceid: seq, Slotid: slot, HighestSlotid: min(slot, 7), Cachethis: cache})}
				for range roots {
					ops = append(ops, rootOp)
				}
				c := p.End(p.Begin(p.Message("", ops...)))
				r := p.Parse(c)
				expect := wire.NFS4OK
				switch {
				case l == nil:
					expect = wire.NFS4ErrBadSlot
				case delta == 0 && !l.used, delta != 0 && delta != 1:
					expect = wire.NFS4ErrSeqMisordered
				case delta == 0 && roots != l.root:
					expect = wire.NFS4ErrSeqFalseRetry
				case delta == 0 && !l.cached && roots > 0:
					expect = wire.NFS4ErrRetryUncachedRep
				}
				if r.Status != expect {
					t.Fatalf("slot %d, step %d: %v, not %v", slot, delta, r.Status, expect)
				}
				if expect != wire.NFS4OK {
					return
				}
				d, _ := c.Results()
				reply := bytes.Clone(d.Rest())
				switch {
				case delta == 1:
					*l = modelSlot{seq, true, roots, cache, reply}
				case !bytes.Equal(reply, l.reply):
					t.Fatalf("another reply: %x, then %x", l.reply, reply)
				}
			},
		})
		is(p.T, "DESTROY_SESSION", single(p, op(wire.OpDestroySession, &wire.DestroySession4Args{Sessionid: s.id}), nil), wire.NFS4OK)
		if m.cache.others.Held() != 0 || m.cache.aside.Held() != 0 {
			t.Fatalf("%d and %d bytes are left", m.cache.aside.Held(), m.cache.others.Held())
		}
	})
}

// modelClient holds the expected incarnations of the client with one name.
type modelClient struct {
	confirmed, unconfirmed modelIncarnation
}

type modelIncarnation struct {
	id       uint64
	verifier byte
	uid      uint32
	session  *session
}

// In any order of EXCHANGE_IDs and confirmations, the server does as the nine cases of RFC 8881
// §18.35.4 say.
func TestClientsAgainstAModel(t *testing.T) {
	site, _ := site(t, Config{}, state.Config{})
	peers := [2]*nfs4test.Peer{site.Peer(1), site.Peer(1)}
	peers[1].UID = 1
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		name := fmt.Sprint("client ", n)
		var c modelClient
		gone := []uint64{1}
		lose := func(i *modelIncarnation) {
			if i.id != 0 {
				gone = append(gone, i.id)
			}
			if i.session != nil {
				if r := i.session.run(); r.Status != wire.NFS4ErrBadSession {
					t.Fatalf("the session of a client that is no more: %v", r.Status)
				}
			}
			*i = modelIncarnation{}
		}
		t.Repeat(map[string]func(*rapid.T){
			"EXCHANGE_ID": func(t *rapid.T) {
				uid := rapid.Uint32Range(0, 1).Draw(t, "user")
				verifier := byte(rapid.IntRange(1, 2).Draw(t, "verifier"))
				update := rapid.Bool().Draw(t, "update")
				args := exchangeArgs(name, verifier)
				if update {
					args.Flags = wire.Exchgid4FlagUpdConfirmedRecA
				}
				res := exchange(peers[uid], args)
				old := &c.confirmed
				expect, same := wire.NFS4OK, false
				switch {
				case update && old.id == 0:
					expect = wire.NFS4ErrNoEnt
				case update && old.verifier != verifier:
					expect = wire.NFS4ErrNotSame
				case update && old.uid != uid:
					expect = wire.NFS4ErrPerm
				case update:
					same = true
				case old.id != 0 && old.uid != uid && old.session != nil:
					expect = wire.NFS4ErrClIDInUse
				case old.id != 0 && old.uid == uid && old.verifier == verifier:
					same = true
				}
				if res.Status != expect {
					t.Fatalf("%v, not %v", res.Status, expect)
				}
				if expect != wire.NFS4OK {
					return
				}
				if confirmed := res.ResOK.Flags&wire.Exchgid4FlagConfirmedR != 0; confirmed != same || same && res.ResOK.Clientid != old.id {
					t.Fatalf("client %#x, confirmed %v", res.ResOK.Clientid, confirmed)
				}
				if same {
					if !update {
						lose(&c.unconfirmed)
					}
					return
				}
				if old.id != 0 && old.uid != uid {
					lose(old)
				}
				lose(&c.unconfirmed)
				c.unconfirmed = modelIncarnation{res.ResOK.Clientid, verifier, uid, nil}
			},
			"CREATE_SESSION": func(t *rapid.T) {
				uid := rapid.Uint32Range(0, 1).Draw(t, "user")
				u := &c.unconfirmed
				if u.id == 0 {
					return
				}
				res := create(peers[uid], createArgs(u.id, 1))
				if uid != u.uid {
					if res.Status != wire.NFS4ErrClIDInUse {
						t.Fatal(res.Status)
					}
					return
				}
				if res.Status != wire.NFS4OK {
					t.Fatal(res.Status)
				}
				lose(&c.confirmed)
				u.session = &session{peers[uid], u.id, res.ResOK.Sessionid, res.ResOK.ForeChanAttrs, map[uint32]uint32{}}
				c.confirmed, *u = *u, modelIncarnation{}
			},
			"DESTROY_SESSION": func(t *rapid.T) {
				if s := c.confirmed.session; s != nil {
					if st := single(s.Peer, op(wire.OpDestroySession, &wire.DestroySession4Args{Sessionid: s.id}), nil); st != wire.NFS4OK {
						t.Fatal(st)
					}
					c.confirmed.session = nil
				}
			},
			"DESTROY_CLIENTID": func(t *rapid.T) {
				for _, i := range []*modelIncarnation{&c.confirmed, &c.unconfirmed} {
					if i.id == 0 || rapid.Bool().Draw(t, "stays") {
						continue
					}
					expect := wire.NFS4OK
					if i.session != nil {
						expect = wire.NFS4ErrClientIDBusy
					}
					if st := single(peers[0], op(wire.OpDestroyClientID, &wire.DestroyClientID4Args{Clientid: i.id}), nil); st != expect {
						t.Fatalf("%v, not %v", st, expect)
					}
					if expect == wire.NFS4OK {
						lose(i)
					}
				}
			},
			"": func(t *rapid.T) {
				if s := c.confirmed.session; s != nil {
					if r := s.run(rootOp); r.Status != wire.NFS4OK {
						t.Fatal(r.Status)
					}
				}
				id := gone[len(gone)-1]
				if res := create(peers[0], createArgs(id, 1)); res.Status != wire.NFS4ErrStaleClientID {
					t.Fatalf("CREATE_SESSION of a client that is no more: %v", res.Status)
				}
			},
		})
	})
}

// Many connections use one session at once. Each request is executed once.
func TestManyConnectionsOneSession(t *testing.T) {
	site, m := site(t, Config{}, state.Config{})
	p := site.Peer(1)
	args := createArgs(newClient(p, "client", 1), 1)
	args.ForeChanAttrs.Maxrequests = 64
	args.ForeChanAttrs.Maxoperations = 8
	s := sessionOf(p, args)
	const workers, rounds = 32, 100
	var all sync.WaitGroup
	for i := range uint32(workers) {
		conn := site.Peer(1).Conn
		messages := make([][]byte, rounds)
		for n := range messages {
			seq := &wire.Sequence4Args{Sessionid: s.id, Sequenceid: uint32(n + 1), Slotid: i, HighestSlotid: 63, Cachethis: n%2 == 0}
			messages[n] = p.Message("", op(wire.OpSequence, seq), rootOp, op(wire.OpGetFH))
		}
		all.Go(func() {
			for n, message := range messages {
				var first []byte
				for again := range 1 + (n+1)%2 {
					c := rpctest.NewCall(conn, bytes.Clone(message))
					c.Run(site.RPC)
					d, err := c.Results()
					if err != nil {
						t.Error(err)
						return
					}
					if st := wire.NFSStat4(d.Int32()); st != wire.NFS4OK {
						t.Errorf("slot %d, sequence %d: %v", i, n+1, st)
						return
					}
					if again > 0 && !bytes.Equal(d.Rest(), first) {
						t.Errorf("slot %d, sequence %d: another reply", i, n+1)
					}
					first = bytes.Clone(d.Rest())
				}
			}
			conn.Close()
		})
	}
	all.Wait()
	if sess := m.sessions.find(&s.id); sess.owner.Busy() || len(*sess.conns.Load()) != 1 {
		t.Errorf("busy %v, %d connections", sess.owner.Busy(), len(*sess.conns.Load()))
	}
}
