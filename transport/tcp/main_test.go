package tcp

import (
	"context"
	"net"
	"testing"

	"go.uber.org/goleak"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a server of the toy program (rpctest.Program) on a loopback address.
type fixture struct {
	testing.TB
	*Server
	program *rpctest.Program
	rpc     *rpc.Server
	pool    *mem.Pool
	addr    string
}

// start starts a server with cfg. If cfg.Pool is nil, it makes a Pool; it always makes the RPC
// server.
func start(t testing.TB, cfg Config) *fixture {
	t.Helper()
	return startWith(t, cfg, rpc.Config{})
}

func startWith(t testing.TB, cfg Config, rpcConfig rpc.Config) *fixture {
	t.Helper()
	return startProgram(t, cfg, rpcConfig, func(p *rpctest.Program) rpc.Program { return p })
}

// startProgram is startWith for the program that `of` returns for the toy program.
func startProgram(t testing.TB, cfg Config, rpcConfig rpc.Config, of func(*rpctest.Program) rpc.Program) *fixture {
	t.Helper()
	f := &fixture{TB: t, program: rpctest.NewProgram(), pool: cfg.Pool}
	if f.pool == nil {
		p, err := mem.NewPool(mem.Config{Ceiling: 64 << 20})
		if err != nil {
			t.Fatal(err)
		}
		f.pool, cfg.Pool = p, p
	}
	f.rpc = rpc.NewServer(rpcConfig)
	f.program.Judging = knownByAnyCall
	f.rpc.Register(of(f.program))
	cfg.RPC = f.rpc
	f.Server = NewServer(cfg)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.addr = l.Addr().String()
	served := make(chan error)
	go func() { served <- f.Serve(l) }()
	t.Cleanup(func() {
		f.Server.Close()
		if err := <-served; err != ErrServerClosed {
			t.Errorf("Serve: %v", err)
		}
		f.rpc.Close()
		f.program.Wait()
		if n := f.pool.Stats().InUse; n != 0 {
			t.Errorf("%d bytes of payload memory are still in use", n)
		}
		f.pool.Close()
	})
	return f
}

func (f *fixture) dial(cfg DialConfig) *Conn {
	f.Helper()
	c, err := Dial(context.Background(), f.addr, cfg)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(c.Close)
	return c
}

// raw returns a plain connection to the server.
func (f *fixture) raw() net.Conn {
	f.Helper()
	c, err := net.Dial("tcp", f.addr)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { c.Close() })
	return c
}

func exchange(proc uint32, args func(w *xdr.Writer)) *rpc.Exchange {
	return &rpc.Exchange{
		Program: rpctest.Number, Version: 1, Procedure: proc,
		Args: args, MaxArgs: 128 << 10,
	}
}

func u32(v ...uint32) func(w *xdr.Writer) {
	return func(w *xdr.Writer) {
		for _, v := range v {
			w.Uint32(v)
		}
	}
}

// knownByAnyCall judges a peer as known when it makes any call but NULL.
func knownByAnyCall(a *rpc.Arrived, j *rpc.Judgement) rpc.Outcome {
	j.Known = a.Header.Procedure != rpctest.NULL
	return rpc.Done
}

// ended waits for the end of a call, a server or a goroutine that a test began.
func ended[T any](t testing.TB, ch <-chan T) T {
	t.Helper()
	return await.Receive(t, "what the test began ends", ch)
}
