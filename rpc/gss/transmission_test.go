package gss_test

import (
	"slices"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// A repeating Caller encodes each call three times, and sends the last one, like a transport that
// repeats calls after the loss of a connection. It records the sequence numbers.
type repeating struct {
	rpc.Caller
	t       *testing.T
	numbers []uint32
}

func (r *repeating) Start(x *rpc.Exchange) {
	for range 2 {
		if x.Sign == nil {
			break // the call that makes the context
		}
		w := xdr.NewWriter(make([]byte, 0, 1024))
		x.Sign(x, w)
		d := xdr.NewDecoder(w.Bytes())
		flavor := d.Uint32()
		d.Skip(3 * 4) // length of the body, version, procedure
		number := d.Uint32()
		if d.Err() != nil || rpc.Flavor(flavor) != rpc.AuthGSS {
			r.t.Errorf("%x is no credential", w.Bytes())
		}
		r.numbers = append(r.numbers, number)
	}
	r.Caller.Start(x)
}

// Each transmission of a call has a new sequence number (RFC 2203 §5.3.3.1), because a server drops
// calls with a number that it has seen.
func TestEachTransmissionHasItsOwnNumber(t *testing.T) {
	for name, service := range services {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, gss.Config{})
			r := &repeating{Caller: s.wire(), t: t}
			k := s.client(r, service)
			for want := range uint64(3) {
				if n, err := bump(k); err != nil || n != want+1 {
					t.Fatalf("%d, %v", n, err)
				}
			}
			if distinct := slices.Compact(slices.Sorted(slices.Values(r.numbers))); len(r.numbers) < 6 || len(distinct) != len(r.numbers) {
				t.Errorf("the numbers are %v", r.numbers)
			}
		})
	}
}
