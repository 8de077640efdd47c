package rpc_test

import (
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
)

// modelConn is a connection of the model. modelReply is a reply that the model expects in the
// cache.
type modelConn struct {
	*rpc.Conn
	gone, succeeded bool
	left            atomic.Bool
}

type modelReply struct {
	owner *modelConn
	told  uint64
	at    time.Time
}

func (c *modelConn) gives(to *modelConn) bool {
	return c.gone || c.left.Load() || c.Peer == to.Peer
}

// For any sequence of repeated calls on connections that begin, end, are left by their peers, and
// are replaced by newer ones, the cache answers as the model does.
func TestReplyCacheModel(t *testing.T) { checkInBubble(t, repliesByContract) }

// checkInBubble checks a property in the fake time of testing/synctest.
func checkInBubble(t *testing.T, property func(*rapid.T)) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(struct{ testing.TB }{t}, property) // rapid would ask a *testing.T for its deadline
	})
}

func repliesByContract(t *rapid.T) {
	s := rpc.NewServer(rpc.Config{})
	defer s.Close()
	p := rpctest.NewProgram()
	s.Register(p)
	var conns []*modelConn
	known := make(map[uint32][]*modelReply) // the newest first
	connect := func(t *rapid.T) {
		port := uint16(rapid.IntRange(700, 703).Draw(t, "port"))
		c := &modelConn{Conn: s.NewConn(netip.AddrPortFrom(peer.Addr(), port), local, "tcp", true)}
		c.Left = c.left.Load
		conns = append(conns, c)
	}
	connect(t)
	some := func(t *rapid.T) *modelConn { return rapid.SampledFrom(conns).Draw(t, "connection") }
	t.Repeat(map[string]func(*rapid.T){
		"": func(t *rapid.T) {
			if err := s.CheckReplies(); err != nil {
				t.Fatal(err)
			}
		},
		"connect": connect,
		"end": func(t *rapid.T) {
			c := some(t)
			c.gone = true
			c.Close()
		},
		"leave": func(t *rapid.T) { some(t).left.Store(true) },
		"wait":  func(t *rapid.T) { time.Sleep(time.Duration(rapid.IntRange(1, 900).Draw(t, "seconds")) * time.Second) },
		"call": func(t *rapid.T) {
			c, xid := some(t), rapid.Uint32Range(1, 3).Draw(t, "xid")
			call := rpctest.NewCall(c.Conn, rpctest.Message(xid, rpctest.BUMP, bump(""))).Run(s)
			now := time.Now()
			all := slices.DeleteFunc(known[xid], func(r *modelReply) bool { return now.Sub(r.at) > rpc.ReplyLife })
			defer func() { known[xid] = all }()
			i := slices.IndexFunc(all, func(r *modelReply) bool { return r.owner == c })
			if i < 0 {
				i = slices.IndexFunc(all, func(r *modelReply) bool { return r.owner.gives(c) })
			}
			if i >= 0 {
				r := all[i]
				r.at = now
				if r.owner.ID < c.ID {
					r.owner.succeeded = true
					r.owner = c
				}
				if d, err := call.Results(); err != nil || d.Uint64() != r.told {
					t.Fatalf("a copy of %d is not answered so: %v", r.told, err)
				}
				return
			}
			if c.succeeded || slices.ContainsFunc(all, func(r *modelReply) bool { return r.owner.ID > c.ID }) {
				c.succeeded = true
				if call.End != rpctest.DroppedAndClosed {
					t.Fatalf("a call that lags behind ended with %v", call.End)
				}
				return
			}
			d, err := call.Results()
			if err != nil {
				t.Fatal(err)
			}
			told := d.Uint64()
			if told != uint64(p.Served[rpctest.BUMP].Load()) {
				t.Fatalf("a new call got the answer %d of another one", told)
			}
			all = append([]*modelReply{{c, told, now}}, all...)
			all = all[:min(len(all), 4)]
		},
	})
}

// While a call runs, no call that may be its copy runs. All calls that wait for it end, even if
// memory is short and calls fail.
func TestReplyCacheModelOfRunningCalls(t *testing.T) {
	checkInBubble(t, runningByContract)
}

func runningByContract(t *rapid.T) {
	s := rpc.NewServer(rpc.Config{ReplyCacheBytes: int64(rapid.IntRange(1<<10, 16<<10).Draw(t, "size"))})
	p := rpctest.NewProgram()
	s.Register(p)
	var conns []*modelConn
	var calls []*rpctest.Call
	xids := make(map[uint32]bool) // the XIDs of the outstanding calls
	next := uint32(0)
	connect := func(t *rapid.T) {
		addr := netip.AddrFrom4([4]byte{192, 0, 2, byte(rapid.IntRange(1, 2).Draw(t, "host"))})
		c := &modelConn{Conn: s.NewConn(netip.AddrPortFrom(addr, uint16(rapid.IntRange(700, 702).Draw(t, "port"))), local, "tcp", true)}
		c.Left = c.left.Load
		c.Window = rapid.IntRange(1, 3).Draw(t, "window")
		conns = append(conns, c)
	}
	connect(t)
	some := func(t *rapid.T) *modelConn { return rapid.SampledFrom(conns).Draw(t, "connection") }
	call := func(c *modelConn, xid, procedure uint32) {
		calls = append(calls, rpctest.NewCall(c.Conn, rpctest.Message(xid, procedure, u32(xid))).Go(s))
		synctest.Wait()
	}
	release := func(xid uint32) {
		delete(xids, xid)
		p.Release(xid)
		synctest.Wait()
	}
	under := func(t *rapid.T) uint32 {
		all := make([]uint32, 0, len(xids))
		for x := range xids {
			all = append(all, x)
		}
		if len(all) == 0 {
			t.Skip("nothing is under way")
		}
		slices.Sort(all)
		return rapid.SampledFrom(all).Draw(t, "xid")
	}
	t.Repeat(map[string]func(*rapid.T){
		"": func(t *rapid.T) {
			if err := s.CheckReplies(); err != nil {
				t.Fatal(err)
			}
			for x := range xids {
				// There are two hosts, and at most one call of each runs.
				if n := len(p.Arrived(x)); n > 2 {
					t.Fatalf("call %d runs %d times", x, n)
				}
			}
		},
		"connect": connect,
		"end":     func(t *rapid.T) { some(t).Close() },
		"leave":   func(t *rapid.T) { some(t).left.Store(true) },
		"begin": func(t *rapid.T) {
			next++
			xids[next] = true
			call(some(t), next, rpctest.HOLD)
		},
		"repeat":  func(t *rapid.T) { call(some(t), under(t), rpctest.HOLD) },
		"release": func(t *rapid.T) { release(under(t)) },
		"wide": func(t *rapid.T) {
			call(some(t), rapid.Uint32Range(1, 400).Draw(t, "length"), rpctest.WIDE)
		},
	})
	for x := range xids {
		release(x)
	}
	for _, c := range calls {
		select {
		case <-c.Done:
		default:
			t.Fatal("a call has no end")
		}
	}
	if st := s.Stats(); st.InProgress != 0 || st.ReplyCache.Bytes > 16<<10 {
		t.Fatalf("%+v", st)
	}
	s.Close()
}
