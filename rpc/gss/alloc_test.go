package gss_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss/gsstest"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// prepared has calls under a context, to be sent once each.
type prepared struct {
	r        *raw
	messages [][]byte
	call     *rpctest.Call
}

// prepare encodes n ECHOs of 100 bytes.
func (r *raw) prepare(n int, service rpc.GSSService) *prepared {
	p := &prepared{r: r, call: rpctest.NewCall(r.conn, nil)}
	w := xdr.NewWriter(make([]byte, 0, 200))
	w.Opaque(make([]byte, 100))
	for i := range n {
		seq := uint32(i + 1)
		args := w.Bytes()
		switch service {
		case rpc.GSSIntegrity:
			args = signed(r.ctx, seq, args)
		case rpc.GSSPrivacy:
			args = sealed(r.ctx, seq, args)
		}
		h := r.data(seq, uint32(service))
		h.procedure = rpctest.ECHO
		probe := &wire{s: r.s, conn: r.conn, write: func(m []byte) { p.messages = append(p.messages, m) }}
		probe.call(r.ctx, h, put(args))
	}
	return p
}

// next serves the next call.
func (p *prepared) next() rpctest.End {
	p.call.Again(p.r.conn, p.messages[0])
	p.messages = p.messages[1:]
	return p.call.Run(p.r.s).End
}

// The server allocates nothing for a call with the service GSSNone or GSSIntegrity. Only the
// mechanism may allocate.
func TestCallsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for service, most := range map[rpc.GSSService]float64{rpc.GSSNone: 0, rpc.GSSIntegrity: 0} {
		s := newSite(t, gss.Config{})
		p := s.establish(s.wire(), s.mech).prepare(1101, service)
		end := p.next()
		n := testing.AllocsPerRun(1000, func() { end = min(end, p.next()) })
		if end != rpctest.Sent || n > most {
			t.Errorf("service %d: %v allocations a call, end %d", service, n, end)
		}
	}
}

// BenchmarkCall serves small calls, from the message to the reply.
func BenchmarkCall(b *testing.B) {
	b.Run("AUTH_NONE", func(b *testing.B) {
		s := newSite(b, gss.Config{})
		w := s.wire()
		m := rpctest.Message(1, rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(make([]byte, 100)) })
		c := rpctest.NewCall(w.conn, nil)
		b.ReportAllocs()
		for b.Loop() {
			c.Again(w.conn, m)
			c.Run(w.s)
		}
	})
	for name, service := range services {
		b.Run(name, func(b *testing.B) {
			s := newSite(b, gss.Config{})
			r := s.establish(s.wire(), s.mech)
			p := r.prepare(b.N, service)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				if p.next() != rpctest.Sent {
					b.Fatal("no reply")
				}
			}
		})
	}
}

// BenchmarkInit makes contexts with the test mechanism.
func BenchmarkInit(b *testing.B) {
	m := gsstest.New()
	s := newSite(b, gss.Config{Mechanisms: []gss.Mechanism{m}})
	w := s.wire()
	for b.Loop() {
		s.establish(w, m)
	}
}
