package rdma

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// This package's requester works with its responder, with small and large thresholds, with and
// without remote invalidation. The data that arrives is the data that was sent, inline and by
// chunks. An eligible item travels inline, in a chunk of its own, or in a Position-Zero or Reply
// chunk (P-4). The items of ECHO, which are not eligible, travel in Position-Zero and Reply chunks if
// they are long (P-10). Rows V1-110, V1-35, P-4 and P-10 of docs/conformance.md.
func TestLoopback(t *testing.T) {
	t.Run("memory", func(t *testing.T) { loopback(t, nil, false) })
	t.Run("iwarp", func(t *testing.T) { loopback(t, newIwarp(t), false) })
	t.Run("memory, version 2", func(t *testing.T) { loopback(t, nil, true) })
	t.Run("iwarp, version 2", func(t *testing.T) { loopback(t, newIwarp(t), true) })
	t.Run("verbs", func(t *testing.T) { loopback(t, newVerbs(t), false) })
	t.Run("verbs, version 2", func(t *testing.T) { loopback(t, newVerbs(t), true) })
}

// newIwarp returns a software RNIC.
func newIwarp(t testing.TB) rdmacm.Provider {
	p, err := iwarp.New(iwarp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func loopback(t *testing.T, device rdmacm.Provider, version2 bool) {
	for _, inline := range []int{1024, 4096, 262144} {
		for _, invalidate := range []bool{false, true} {
			t.Run(fmt.Sprintf("T=%d invalidation=%v", inline, invalidate), func(t *testing.T) {
				b := newBench(t, benchConfig{device: device, server: Config{
					InlineSend: inline, InlineReceive: inline, RemoteInvalidation: invalidate, Version2: version2,
				}})
				c := b.dial(DialConfig{
					InlineSend: inline, InlineReceive: inline, RemoteInvalidation: invalidate, Version2: version2, maxSegment: 100_000,
				})
				if i, ok := c.Info(); !ok || (i.Version == 2) != version2 {
					t.Fatalf("the connection is %+v", i)
				}
				for _, n := range sizes(inline) {
					if err := get(t, c, n, make([]byte, n)); err != nil {
						t.Errorf("GET of %d bytes to a sink: %v", n, err)
					}
					if err := get(t, c, n, nil); err != nil {
						t.Errorf("GET of %d bytes without a sink: %v", n, err)
					}
					if err := put(t, c, pattern(n)); err != nil {
						t.Errorf("PUT of %d bytes: %v", n, err)
					}
					if n > rpctest.MaxEcho {
						continue
					}
					x := exchangeFor(rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(pattern(n)) })
					x.MaxArgs = n + 8
					if err := do(t, c, x, func(d *xdr.Decoder) {
						if !bytes.Equal(d.Opaque(rpctest.MaxEcho), pattern(n)) {
							t.Errorf("ECHO of %d bytes differs", n)
						}
					}); err != nil {
						t.Errorf("ECHO of %d bytes: %v", n, err)
					}
				}
				if n := b.server.Stats().Invalidated.Load(); (n > 0) != (invalidate && b.device.Limits().RemoteInvalidation) {
					t.Errorf("%d replies invalidated", n)
				}
			})
		}
	}
}

// sizes returns sizes of items to test: the smallest, with every padding, and sizes around a
// threshold of t and around t less the headers.
func sizes(t int) []int {
	s := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	for d := -140; d <= 4; d += 7 {
		s = append(s, t+d)
	}
	return append(s, t-1, t, t+1, 2*t+3, 300_001, 1<<20)
}
