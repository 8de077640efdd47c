package rpc_test

import (
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// If the program sets Judgement.Early, the server answers the call at once. It reserves no memory
// for the call, and stores no reply in the duplicate-request cache.
func TestEarly(t *testing.T) {
	pool, err := mem.NewPool(mem.Config{Ceiling: mem.MinCeiling})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	s, p, conn := newServer(t, rpc.Config{Pool: pool})
	p.Judging = func(a *rpc.Arrived, j *rpc.Judgement) rpc.Outcome {
		j.Early, j.Lane = true, "a lane"
		return rpc.Done
	}
	for _, c := range []struct {
		proc uint32
		args func(w *xdr.Writer)
	}{
		{rpctest.GET, u32(500_000)},
		{rpctest.PUT, func(w *xdr.Writer) { w.String("name"); w.Uint32(900_000) }},
		{rpctest.WIDE, u32(60_000)},
	} {
		m := rpctest.Message(1, c.proc, c.args)
		call := rpctest.NewCall(conn, m)
		// The largest reply of the procedure would not fit.
		call.Space = rpc.Room{Inline: 100}
		if c.proc == rpctest.PUT {
			call.Placed = []rpc.Placed{{Position: uint32(len(m)), Length: 900_000}}
		}
		plan, ok := s.Admit(&call.Call)
		if !ok || !plan.Early || plan.Results != 0 || plan.Group != nil {
			t.Fatalf("procedure %d: admitted %v, %+v", c.proc, ok, plan)
		}
		s.Serve(&call.Call)
		ended(t, call.Done)
		if d, err := call.Results(); err != nil || d.Uint32() != rpctest.Early {
			t.Errorf("procedure %d: %v", c.proc, err)
		}
	}
	if st := s.Stats(); st.ReplyCache.Entries != 0 || st.InProgress != 0 {
		t.Errorf("%+v", st)
	}
}

// Conn.Known returns false until a program sets Judgement.Known for a call of the connection. The
// function of OnKnown is called once.
func TestKnown(t *testing.T) {
	s, p, conn := newServer(t, rpc.Config{})
	told := 0
	conn.OnKnown(func() { told++ })
	rpctest.NewCall(conn, rpctest.Message(1, rpctest.NULL, nil)).Run(s)
	if conn.Known() || told != 0 {
		t.Error("a NULL makes a connection known")
	}
	p.Judging = func(_ *rpc.Arrived, j *rpc.Judgement) rpc.Outcome {
		j.Known = true
		return rpc.Done
	}
	for range 3 {
		rpctest.NewCall(conn, rpctest.Message(2, rpctest.ECHO, bump("x"))).Run(s)
		if !conn.Known() || told != 1 {
			t.Errorf("known %v, told %d times", conn.Known(), told)
		}
	}
}

// versioned serves one version of a program number that several Programs have.
type versioned struct {
	*rpctest.Program
	version, low, high uint32
}

func (p *versioned) Versions() (low, high uint32) { return p.low, p.high }

func (p *versioned) Binding(v uint32) *rpc.Binding {
	if v != p.version {
		return nil
	}
	return &rpctest.Binding
}

func (p *versioned) Serve(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
	w.Uint32(p.version)
	return rpc.Done
}

// Several Programs may have the same number if each serves other versions. PROG_MISMATCH has the
// lowest and the highest version of all of them.
func TestVersionsOfOneNumber(t *testing.T) {
	s := rpc.NewServer(rpc.Config{})
	defer s.Close()
	s.Register(&versioned{Program: rpctest.NewProgram(), version: 3, low: 3, high: 3})
	s.Register(&versioned{Program: rpctest.NewProgram(), version: 4, low: 4, high: 4})
	conn := s.NewConn(peer, local, "tcp", true)
	call := func(version uint32) (*xdr.Decoder, error) {
		h := rpc.CallHeader{XID: version, Program: rpctest.Number, Version: version, Procedure: rpctest.BUMP}
		return rpctest.NewCall(conn, rpctest.CallMessage(h, bump("x"))).Run(s).Results()
	}
	for _, v := range []uint32{3, 4} {
		if d, err := call(v); err != nil || d.Uint32() != v {
			t.Errorf("version %d: %v", v, err)
		}
	}
	for _, v := range []uint32{2, 5} {
		if _, err := call(v); err == nil || !strings.Contains(err.Error(), "3 to 4") {
			t.Errorf("version %d: %v", v, err)
		}
	}
	if n := len(s.Stats().Procedures); n != 2 {
		t.Errorf("%d rows of counters for two versions", n)
	}
	s.Register(&versioned{Program: rpctest.NewProgram(), version: 5, low: 3, high: 5}) // without a Binding of 3 and 4
	if d, err := call(5); err != nil || d.Uint32() != 5 {
		t.Errorf("version 5: %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a version was registered twice")
		}
	}()
	s.Register(&versioned{Program: rpctest.NewProgram(), version: 4, low: 4, high: 4})
}

// A program is told how many bytes of results have room in the reply, next to the reply's header and
// the protection. Results of this size are sent, and larger ones are not.
func TestProgramIsToldTheRoomForItsResults(t *testing.T) {
	const inline = 4096
	for _, service := range []uint32{rpctest.SealNone, rpctest.SealWrap} {
		s, p, conn := newServer(t, rpc.Config{})
		s.Protect(rpctest.FlavorSeal, rpctest.NewSeal())
		key := newKey(t, s, conn)
		told := -1
		p.Judging = func(_ *rpc.Arrived, j *rpc.Judgement) rpc.Outcome {
			told = j.Room
			return rpc.Done
		}
		xid := uint32(2)
		echo := func(results, room int) error {
			xid++
			args := func(w *xdr.Writer) { w.Opaque(make([]byte, results-4)) }
			h := rpc.CallHeader{XID: xid, Program: rpctest.Number, Version: 1, Procedure: rpctest.ECHO}
			h.Cred = rpctest.SealCred(h, service, key)
			if service == rpctest.SealWrap {
				args = rpctest.SealArgs(args, key)
			}
			c := rpctest.NewCall(conn, rpctest.CallMessage(h, args))
			c.Space = rpc.Room{Inline: room}
			_, err := c.Run(s).Results()
			return err
		}
		if err := echo(100, inline); err != nil || told <= 0 || told%4 != 0 {
			t.Fatalf("service %d: room for %d bytes, %v", service, told, err)
		}
		room := told
		if err := echo(room, inline); err != nil {
			t.Errorf("service %d: results of %d bytes, for which there is room: %v", service, room, err)
		}
		if err := echo(room+4, inline); err == nil {
			t.Errorf("service %d: results of %d bytes were sent, and there is room for %d", service, room+4, room)
		}
		if _ = echo(100, 16); told != 0 {
			t.Errorf("service %d: room for %d bytes in a reply of 16", service, told)
		}
	}
}
