package rpc_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
)

// After a warm-up, calls that are answered on the goroutine that received them allocate nothing,
// even if the duplicate-request cache stores their replies and each call is observed.
func TestNoAllocationPerCall(t *testing.T) {
	s, _, conn := newServer(t, rpc.Config{ReplyCacheBytes: 32 << 10, Observe: func(*rpc.Event) {}})
	cred, err := rpc.AuthSysCred(1, "box", 1000, 100, []uint32{1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		proc uint32
		args []byte
	}{
		{"null", rpctest.NULL, nil},
		{"in place", rpctest.SAME, []byte{0, 0, 1, 0}},
		{"once", rpctest.BUMP, []byte{0, 0, 0, 4, 1, 2, 3, 4}},
		{"refused", 77, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := rpc.CallHeader{Program: rpctest.Number, Version: 1, Procedure: c.proc}
			if c.proc != rpctest.NULL {
				h.Cred = cred
			}
			m := append(rpctest.CallMessage(h, nil), c.args...)
			call := rpctest.NewCall(conn, m)
			xid := uint16(0)
			run := func() {
				xid++
				m[0], m[1] = byte(xid>>8), byte(xid)
				call.Again(conn, m)
				call.Run(s)
			}
			for range 200 {
				run()
			}
			if n := testing.AllocsPerRun(500, run); n != 0 {
				t.Errorf("%v allocations", n)
			}
		})
	}
}

func BenchmarkCallInPlace(b *testing.B) {
	for _, proc := range []uint32{rpctest.NULL, rpctest.BUMP} {
		b.Run(rpctest.Binding.Procedures[proc].Name, func(b *testing.B) {
			s, _, conn := newServer(b, rpc.Config{})
			m := rpctest.CallMessage(rpc.CallHeader{Program: rpctest.Number, Version: 1, Procedure: proc}, nil)
			if proc == rpctest.BUMP {
				m = append(m, 0, 0, 0, 0)
			}
			call := rpctest.NewCall(conn, m)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				m[0], m[1], m[2], m[3] = byte(i>>24), byte(i>>16), byte(i>>8), byte(i)
				call.Again(conn, m)
				call.Run(s)
			}
		})
	}
}
