package rpc

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/reused"
)

// A Kept that has held any result holds the next one as a new Kept does.
func TestKeptIsUsedAgain(t *testing.T) {
	type result struct {
		name string
		out  Outcome
		put  func(w *xdr.Writer)
	}
	results := []result{
		{"payloads", Done, func(w *xdr.Writer) {
			w.Uint32(1)
			w.Payload(make([]byte, 64), true, nil)
			w.Payload(make([]byte, 8), false, nil)
		}},
		{"words", Done, func(w *xdr.Writer) { w.Uint32(2) }},
		{"nothing", Done, func(*xdr.Writer) {}},
		{"versions", Outcome{Stat: AcceptProgMismatch, Low: 2, High: 4}, func(*xdr.Writer) {}},
		{"denied", Denied(AuthTooWeak), func(*xdr.Writer) {}},
	}
	keep := func(k *Kept, r result) {
		w := xdr.NewWriter(make([]byte, 0, 256))
		r.put(w)
		k.Keep(new(Call), w, r.out)
	}
	for _, first := range results {
		for _, second := range results {
			used, fresh := new(Kept), new(Kept)
			keep(used, first)
			keep(used, second)
			keep(fresh, second)
			if d := reused.Difference(used, fresh); d != "" {
				t.Errorf("%s after %s: %s", second.name, first.name, d)
			}
		}
	}
}
