package version2

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// hostile are the ways in which a client may misuse parts and credits while it keeps to its own limit. Each sends ten
// messages or fewer, which the server permits a stranger, and takes no answer.
var hostile = map[string]func(p peer, n uint32){
	"parts that never end": func(p peer, n uint32) {
		for left := 30000; left > 30000-8*3000; left -= 3000 {
			p.send(message(n, wire.TypeCallMiddle, words(uint32(left-3000)), make([]byte, 3000)))
		}
	},
	"parts of 4 bytes": func(p peer, n uint32) {
		m := rpctest.Message(n, rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(make([]byte, 3000)) })
		for range 9 {
			p.send(message(n, wire.TypeCallMiddle, words(uint32(len(m)-4)), m[:4]))
			m = m[4:]
		}
		p.send(call(n, wire.Lists{}, m))
	},
	"a limit that falls": func(p peer, n uint32) {
		for i := range uint32(10) {
			m := call(n+i, wire.Lists{}, rpctest.Message(n+i, rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(make([]byte, 3000)) }))
			q, _ := wire.ParsePrefix2(m)
			q.Limit = 12 - i
			q.Put(m)
			p.send(m)
		}
	},
	"calls without their ends": func(p peer, n uint32) {
		for i := range uint32(10) {
			p.send(message(n+i, wire.TypeCallMiddle, words(4000), bump(n + i)[:40]))
		}
	},
}

// Beside 64 clients that misuse parts and credits, honest clients of both versions lose no call. Whenever one of them has
// finished, the server's memory is within bounds. When the hostile clients have gone, nothing of theirs is left.
func TestHostileClients(t *testing.T) {
	const each, calls, most = 16, 100, 8 << 20
	r := newResponder(t, rdma.Config{Version2: true})
	var all []peer
	for name, misuse := range hostile {
		for n := range uint32(each) {
			p := r.dial(t)
			p.send(final(1))
			p.wantFinal()
			all = append(all, p)
			misuse(p, 100*(n+1))
		}
		t.Log(each, "clients with", name)
	}
	device, err := iwarp.New(iwarp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	for i := range 4 {
		k, err := rdma.Dial(t.Context(), device, r.addr, rdma.DialConfig{Version2: i%2 == 0})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		go func() {
			var err error
			for n := 0; n < calls && err == nil; n++ {
				err = rpctest.Echo(k, 16000*n/calls)
			}
			done <- err
		}()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := r.pool.Stats().Charged; n > most {
			t.Errorf("%d bytes are charged", n)
		}
	}
	for _, p := range all {
		p.Reset()
	}
	await.Until(t, "the hostile clients are gone", func() bool { return r.server.Stats().Connections.Load() == 4 })
	await.Until(t, "nothing of theirs is charged", func() bool { return r.pool.Stats().Charged == 0 })
}
