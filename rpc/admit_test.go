package rpc_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

var (
	peer  = netip.MustParseAddrPort("192.0.2.7:700")
	local = netip.MustParseAddrPort("192.0.2.1:2049")
)

func newServer(t testing.TB, cfg rpc.Config) (*rpc.Server, *rpctest.Program, *rpc.Conn) {
	if cfg.Ready == nil {
		cfg.Ready = func() int { return 0 }
	}
	s := rpc.NewServer(cfg)
	p := rpctest.NewProgram()
	s.Register(p)
	t.Cleanup(s.Close)
	return s, p, s.NewConn(peer, local, "tcp", true)
}

func u32(v ...uint32) func(w *xdr.Writer) {
	return func(w *xdr.Writer) {
		for _, v := range v {
			w.Uint32(v)
		}
	}
}

func TestEcho(t *testing.T) {
	s, _, conn := newServer(t, rpc.Config{})
	c := rpctest.NewCall(conn, rpctest.Message(7, rpctest.ECHO, func(w *xdr.Writer) { w.String("hello") })).Run(s)
	d, err := c.Results()
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Opaque(100); string(got) != "hello" || d.Finish() != nil {
		t.Fatalf("%q, %v", got, d.Finish())
	}
	if c.Detached {
		t.Error("a call that does not block was detached")
	}
}

// A call that the server does not execute gets the status of RFC 5531 §9 for the reason. A version
// without a Binding is not served (V1-109 in docs/conformance-rpcrdma-v1.md).
func TestCallsThatAreNotExecuted(t *testing.T) {
	s, p, conn := newServer(t, rpc.Config{})
	good := rpc.CallHeader{XID: 9, Program: rpctest.Number, Version: 1, Procedure: rpctest.NULL}
	with := func(change func(h *rpc.CallHeader)) []byte {
		h := good
		change(&h)
		return rpctest.CallMessage(h, nil)
	}
	word := func(m []byte, at int, v byte) []byte { m[4*at+3] = v; return m }
	plain := func() []byte { return rpctest.CallMessage(good, nil) }
	sys, err := rpc.AuthSysCred(1, "box", 1000, 100, []uint32{5})
	if err != nil {
		t.Fatal(err)
	}
	denied := func(why rpc.AuthStat) *rpc.ReplyError { return &rpc.ReplyError{Denied: true, Auth: why} }
	stat := func(s rpc.AcceptStat) *rpc.ReplyError { return &rpc.ReplyError{Stat: s} }
	for _, c := range []struct {
		name    string
		message []byte
		refuse  rpc.Refusal
		want    *rpc.ReplyError
	}{
		{name: "empty", refuse: rpc.RefuseNotACall},
		{name: "XID alone", message: plain()[:4], refuse: rpc.RefuseNotACall},
		{name: "reply", message: word(plain(), 1, 1), refuse: rpc.RefuseNotACall},
		{name: "neither call nor reply", message: word(plain(), 1, 2), refuse: rpc.RefuseNotACall},
		{name: "ends before the procedure", message: plain()[:20], refuse: rpc.RefuseNotACall},
		{name: "RPC version 3", message: word(plain(), 2, 3), want: &rpc.ReplyError{Denied: true, Low: 2, High: 2}},
		{name: "unknown program", message: with(func(h *rpc.CallHeader) { h.Program++ }), want: stat(rpc.AcceptProgUnavail)},
		{name: "version above", message: with(func(h *rpc.CallHeader) { h.Version = 4 }),
			want: &rpc.ReplyError{Stat: rpc.AcceptProgMismatch, Low: 1, High: 3}},
		{name: "version without binding", message: with(func(h *rpc.CallHeader) { h.Version = 2 }),
			want: &rpc.ReplyError{Stat: rpc.AcceptProgMismatch, Low: 1, High: 3}},
		{name: "procedure above", message: with(func(h *rpc.CallHeader) { h.Procedure = 1 << 31 }), want: stat(rpc.AcceptProcUnavail)},
		{name: "credential too long", message: with(func(h *rpc.CallHeader) { h.Cred.Body = make([]byte, 401) }),
			want: denied(rpc.AuthBadCred)},
		{name: "ends in the credential", message: with(func(h *rpc.CallHeader) { h.Cred = sys })[:40], want: denied(rpc.AuthBadCred)},
		{name: "ends in the verifier", message: plain()[:36], want: denied(rpc.AuthBadVerf)},
		{name: "AUTH_SYS with a byte too many", message: with(func(h *rpc.CallHeader) {
			h.Cred = rpc.AuthBytes{Flavor: rpc.AuthSys, Body: append(append([]byte(nil), sys.Body...), 0)}
		}), want: denied(rpc.AuthBadCred)},
		{name: "AUTH_SYS cut off", message: with(func(h *rpc.CallHeader) {
			h.Cred = rpc.AuthBytes{Flavor: rpc.AuthSys, Body: sys.Body[:len(sys.Body)-4]}
		}), want: denied(rpc.AuthBadCred)},
		{name: "AUTH_SYS with 17 groups", message: with(func(h *rpc.CallHeader) {
			w := xdr.NewWriter(make([]byte, 0, 200))
			u32(1, 0, 1000, 100, 17)(w)
			u32(make([]uint32, 17)...)(w)
			h.Cred = rpc.AuthBytes{Flavor: rpc.AuthSys, Body: w.Bytes()}
		}), want: denied(rpc.AuthBadCred)},
		{name: "AUTH_SYS without credential", message: with(func(h *rpc.CallHeader) { h.Cred.Flavor = rpc.AuthSys }),
			want: denied(rpc.AuthBadCred)},
		{name: "AUTH_SYS with a verifier", message: with(func(h *rpc.CallHeader) { h.Cred, h.Verf.Flavor = sys, rpc.AuthSys }),
			want: denied(rpc.AuthBadVerf)},
		{name: "AUTH_SHORT", message: with(func(h *rpc.CallHeader) { h.Cred.Flavor = rpc.AuthShort }), want: denied(rpc.AuthRejectedCred)},
		{name: "unknown flavor", message: with(func(h *rpc.CallHeader) { h.Cred.Flavor = 390000 }), want: denied(rpc.AuthRejectedCred)},
		{name: "arguments of void", message: rpctest.CallMessage(good, u32(1)), want: stat(rpc.AcceptGarbageArgs)},
		{name: "arguments too long", message: rpctest.Message(9, rpctest.BUMP, u32(make([]uint32, 18)...)), want: stat(rpc.AcceptGarbageArgs)},
		{name: "arguments cut off", message: rpctest.Message(9, rpctest.BUMP, u32(5)), want: stat(rpc.AcceptGarbageArgs)},
		{name: "program says PROC_UNAVAIL", message: rpctest.Message(9, rpctest.FAIL, u32(3, 0)), want: stat(rpc.AcceptProcUnavail)},
		{name: "program says SYSTEM_ERR", message: rpctest.Message(9, rpctest.FAIL, u32(5, 0)), want: stat(rpc.AcceptSystemErr)},
		{name: "program says PROG_MISMATCH", message: rpctest.Message(9, rpctest.FAIL, u32(2, 0)),
			want: &rpc.ReplyError{Stat: rpc.AcceptProgMismatch, Low: 1, High: 3}},
		{name: "program says AUTH_TOOWEAK", message: rpctest.Message(9, rpctest.FAIL, u32(0, 5)), want: denied(rpc.AuthTooWeak)},
		{name: "results beyond the binding", message: rpctest.Message(9, rpctest.SPILL, u32(100)), want: stat(rpc.AcceptSystemErr)},
	} {
		t.Run(c.name, func(t *testing.T) {
			call := rpctest.NewCall(conn, c.message).Run(s)
			if c.refuse != 0 {
				if call.End != rpctest.Refused || call.Why != c.refuse {
					t.Fatalf("end %v, refusal %v", call.End, call.Why)
				}
				return
			}
			d, err := call.Results()
			var re *rpc.ReplyError
			if !errors.As(err, &re) || *re != *c.want {
				t.Fatalf("%v, want %v", err, c.want)
			}
			if d.Len() != 0 {
				t.Errorf("%d bytes behind the reply", d.Len())
			}
		})
	}
	if n := p.Served[rpctest.NULL].Load(); n != 0 {
		t.Errorf("NULL was executed %d times", n)
	}
}

func TestAuthSys(t *testing.T) {
	s, p, conn := newServer(t, rpc.Config{})
	groups := make([]uint32, rpc.MaxGroups)
	for i := range groups {
		groups[i] = uint32(100 + i)
	}
	cred, err := rpc.AuthSysCred(77, "client.example", 1000, 50, groups)
	if err != nil {
		t.Fatal(err)
	}
	c := rpctest.NewCall(conn, rpctest.CallMessage(rpc.CallHeader{
		XID: 1, Program: rpctest.Number, Version: 3, Procedure: rpctest.NULL, Cred: cred}, nil)).Run(s)
	if _, err := c.Results(); err != nil {
		t.Fatal(err)
	}
	got := p.Caller.Load()
	if got.UID != 1000 || got.GID != 50 || got.Machine != "client.example" || len(got.Groups) != 16 || got.Groups[15] != 115 {
		t.Fatalf("%+v", got)
	}
	if _, err := rpc.AuthSysCred(0, "", 0, 0, make([]uint32, 17)); err == nil {
		t.Error("17 groups were encoded")
	}
}

// silent is a Protection that accepts every call, and does not say who calls.
type silent struct{}

func (silent) Verify(*rpc.Arrived) (rpc.Guard, rpc.Outcome) { return nil, rpc.Done }

// A caller whose flavor names no user is nobody, and not user 0.
func TestCallerWithoutAUserIsNobody(t *testing.T) {
	s, p, conn := newServer(t, rpc.Config{})
	const flavor = 4711
	s.Protect(flavor, silent{})
	for _, f := range []rpc.Flavor{rpc.AuthNone, flavor} {
		var uid, gid uint32
		p.Judging = func(a *rpc.Arrived, _ *rpc.Judgement) rpc.Outcome {
			uid, gid = a.Cred.UID, a.Cred.GID
			return rpc.Done
		}
		h := rpc.CallHeader{XID: 1, Program: rpctest.Number, Version: 3, Procedure: rpctest.NULL, Cred: rpc.AuthBytes{Flavor: f}}
		if _, err := rpctest.NewCall(conn, rpctest.CallMessage(h, nil)).Run(s).Results(); err != nil {
			t.Fatal(err)
		}
		if uid != rpc.NobodyID || gid != rpc.NobodyID {
			t.Errorf("flavor %v: user %d, group %d", f, uid, gid)
		}
	}
}

func TestJudgeDenies(t *testing.T) {
	s, p, conn := newServer(t, rpc.Config{})
	p.Judging = func(a *rpc.Arrived, j *rpc.Judgement) rpc.Outcome {
		if a.Conn != conn || a.Header.Procedure != rpctest.BUMP {
			t.Error("Judge does not see the call")
		}
		return rpc.Denied(rpc.AuthTooWeak)
	}
	_, err := rpctest.NewCall(conn, rpctest.Message(1, rpctest.BUMP, u32(0))).Run(s).Results()
	var re *rpc.ReplyError
	if !errors.As(err, &re) || re.Auth != rpc.AuthTooWeak || p.Served[rpctest.BUMP].Load() != 0 {
		t.Fatal(err)
	}
}

// putMessage returns a PUT whose data travels outside the message, in a Read chunk. at is the
// position of the data.
func putMessage(xid uint32, name string, count uint32) (m []byte, at uint32) {
	m = rpctest.Message(xid, rpctest.PUT, func(w *xdr.Writer) {
		w.String(name)
		w.Uint32(count)
	})
	return m, uint32(len(m))
}

// A call with an item in a Read chunk that is not eligible is not executed (RFC 8166 §6.1, V1-94 in
// docs/conformance-rpcrdma-v1.md). The server does not fetch an item that is larger than the
// procedure allows (RFC 8166 §8.1.4, V1-98).
func TestPlacedArguments(t *testing.T) {
	s, p, conn := newServer(t, rpc.Config{})
	m, at := putMessage(1, "file", 5000)
	for _, c := range []struct {
		name   string
		proc   uint32
		placed []rpc.Placed
		ok     bool
	}{
		{"the data", rpctest.PUT, []rpc.Placed{{at, 5000}}, true},
		{"the name", rpctest.PUT, []rpc.Placed{{44, 4}}, false},
		{"another place", rpctest.PUT, []rpc.Placed{{at - 4, 5000}}, false},
		{"data and more", rpctest.PUT, []rpc.Placed{{at, 5000}, {at + 5000, 4}}, false},
		{"2 GiB", rpctest.PUT, []rpc.Placed{{at, 1 << 31}}, false},
		{"4 GiB less one", rpctest.PUT, []rpc.Placed{{at, 1<<32 - 1}}, false},
		{"data of a procedure without", rpctest.ECHO, []rpc.Placed{{44, 4}}, false},
	} {
		t.Run("V1-94 V1-98 "+c.name, func(t *testing.T) {
			m := append([]byte(nil), m...)
			m[23] = byte(c.proc)
			call := rpctest.NewCall(conn, m)
			call.Placed = c.placed
			_, ok := s.Admit(&call.Call)
			if ok != c.ok {
				t.Fatalf("admitted: %v", ok)
			}
			if !ok && (call.End != rpctest.Refused || call.Why != rpc.RefuseChunk) {
				t.Fatalf("end %v, refusal %v", call.End, call.Why)
			}
			if ok {
				call.Excised = []xdr.Excised{{Position: at, Data: make([]byte, 5000)}}
				s.Serve(&call.Call)
				if d, err := call.Results(); err != nil || d.Uint32() != 5000 {
					t.Fatal(err)
				}
			}
		})
	}
	if n := p.Served[rpctest.PUT].Load() + p.Served[rpctest.ECHO].Load(); n != 1 {
		t.Errorf("%d calls were executed", n)
	}
}

// If the largest reply of a call does not fit into the caller's space, and the call must not be
// executed twice, the server does not execute it.
func TestRoomForTheReply(t *testing.T) {
	s, p, conn := newServer(t, rpc.Config{})
	const wide = rpc.ReplyHeader + 4 + rpctest.MaxWide
	for _, c := range []struct {
		name   string
		proc   uint32
		room   rpc.Room
		places []int
		ok     bool
	}{
		{"inline", rpctest.WIDE, rpc.Room{Inline: wide}, nil, true},
		{"inline, a byte short", rpctest.WIDE, rpc.Room{Inline: wide - 1}, nil, false},
		{"Reply chunk", rpctest.WIDE, rpc.Room{Inline: 1024, ReplyChunk: wide}, nil, true},
		{"Reply chunk, a byte short", rpctest.WIDE, rpc.Room{Inline: 1024, ReplyChunk: wide - 1}, nil, false},
		{"Write chunk does not help", rpctest.WIDE, rpc.Room{Inline: 1024}, []int{1 << 20}, false},
		{"payload in a Write chunk", rpctest.FETCH, rpc.Room{Inline: 1024}, []int{9999}, true},
		{"payload beyond the Write chunk", rpctest.FETCH, rpc.Room{Inline: 1024}, []int{9998}, false},
		{"payload beyond the Write chunk, inline", rpctest.FETCH, rpc.Room{Inline: 10032}, []int{9998}, true},
		{"payload inline, padding short", rpctest.FETCH, rpc.Room{Inline: 10031}, nil, false},
		{"any result of what may be executed again", rpctest.GET, rpc.Room{Inline: 1024}, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := p.Served[c.proc].Load()
			call := rpctest.NewCall(conn, rpctest.Message(1, c.proc, u32(9999)))
			call.Space, call.Places = c.room, c.places
			plan, ok := s.Admit(&call.Call)
			if ok != c.ok {
				t.Fatalf("admitted: %v", ok)
			}
			if !ok && (call.End != rpctest.Refused || call.Why != rpc.RefuseRoom || p.Served[c.proc].Load() != before) {
				t.Fatalf("end %v, refusal %v", call.End, call.Why)
			}
			if c.proc != rpctest.WIDE && ok && (plan.Results != 9999 || plan.Reply < rpc.ReplyHeader+4) {
				t.Fatalf("%+v", plan)
			}
		})
	}
}

// If the first of two unions in the results is void, the reply has only the eligible payload of the
// second, which is then the first eligible result (RFC 8166 §4.3.2, V1-57 in
// docs/conformance-rpcrdma-v1.md).
func TestPairOfUnions(t *testing.T) {
	s, _, conn := newServer(t, rpc.Config{})
	call := rpctest.NewCall(conn, rpctest.Message(1, rpctest.PAIR, u32(0, 1, 10))).Run(s)
	d, err := call.Results()
	if err != nil || len(call.Payloads) != 1 || call.Payloads[0].Position != rpc.ReplyHeader+12 || !call.Payloads[0].Eligible {
		t.Fatalf("%v, %+v", err, call.Payloads)
	}
	if d.Bool() || !d.Bool() || string(d.Opaque(10)) != string(rpctest.Pattern(make([]byte, 10))) || d.Finish() != nil {
		t.Fatal("results do not read back")
	}
}

func TestResultThatDoesNotFit(t *testing.T) {
	s, _, conn := newServer(t, rpc.Config{})
	call := rpctest.NewCall(conn, rpctest.Message(1, rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(make([]byte, 2000)) }))
	call.Space = rpc.Room{Inline: 1024}
	if call.Run(s); call.End != rpctest.Refused || call.Why != rpc.RefuseRoom {
		t.Fatalf("end %v, refusal %v", call.End, call.Why)
	}
}

func TestPending(t *testing.T) {
	s, p, conn := newServer(t, rpc.Config{})
	d, err := rpctest.NewCall(conn, rpctest.Message(1, rpctest.LATER, u32(42))).Run(s).Results()
	if err != nil || d.Uint32() != 42 {
		t.Fatal(err)
	}
	p.Wait()
}

// A server that drains drops new calls, so that their clients send them again later, and answers
// the calls in progress.
func TestDrain(t *testing.T) {
	s, p, conn := newServer(t, rpc.Config{})
	stalled := rpctest.NewCall(conn, rpctest.Message(1, rpctest.STALL, u32(3))).Go(s)
	ended(t, p.Arrived(3))
	admitted := rpctest.NewCall(conn, rpctest.Message(2, rpctest.NULL, nil))
	if _, ok := s.Admit(&admitted.Call); !ok {
		t.Fatal("not admitted")
	}
	short, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Drain(short); !errors.Is(err, context.Canceled) {
		t.Fatalf("Drain with a call in progress: %v", err)
	}
	if c := rpctest.NewCall(conn, rpctest.Message(3, rpctest.NULL, nil)).Run(s); c.End != rpctest.Dropped {
		t.Errorf("a new call ended with %v", c.End)
	}
	if s.Serve(&admitted.Call); admitted.End != rpctest.Dropped {
		t.Errorf("a call admitted before ended with %v", admitted.End)
	}
	drained := make(chan error)
	go func() { drained <- s.Drain(context.Background()) }()
	p.Release(3)
	if err := ended(t, drained); err != nil {
		t.Fatal(err)
	}
	select {
	case <-stalled.Done:
	default:
		t.Fatal("Drain did not wait")
	}
	if _, err := stalled.Results(); err != nil {
		t.Fatal(err)
	}
}
