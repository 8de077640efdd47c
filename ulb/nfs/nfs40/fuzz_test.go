package nfs40_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// Whatever operations a client sends, the result of each executed operation can be decoded, and its
// status is one that the standard allows for the operation.
func FuzzCompound(f *testing.F) {
	site := func(t testing.TB) *numberedSite {
		p := newHouse(t).start(t) // so that client IDs and stateids are the same in each run
		s := &numberedSite{client: p.client(t, "client"), lockers: map[string]*locker{}}
		s.o, s.l = s.owner("o"), s.locker("l")
		s.id = s.o.opens(t, "file", bothMode, denyNone)
		s.lock = stateID(t, s.run(t, ok, join(at("file"), s.l.first(s.o, s.id, wire.WriteLt, 0, 10))...))
		return s
	}
	encode := func(ops []op) []byte {
		w := xdr.NewWriter(make([]byte, 0, 64<<10))
		for _, o := range ops {
			w.Uint32(uint32(o.Number))
			if _, large := o.Args.(*wire.Write4Args); o.Args != nil && !large {
				o.Args.Encode(w)
			}
		}
		return w.Bytes()
	}
	for name, o := range onHandle() {
		if name != "WRITE" { // the data of WRITE is not a word
			f.Add(encode([]op{putRootFH, lookup("file"), saveFH, putRootFH, o, getFH}), uint32(6))
		}
	}
	s := site(f)
	for _, make := range numbered {
		f.Add(encode(make(s)), uint32(4))
	}
	f.Add(encode([]op{setClientID("x", 1), confirmClientID(1, wire.Verifier4{}), renew(s.client.id), s.l.release()}), uint32(4))
	f.Fuzz(func(t *testing.T, ops []byte, n uint32) {
		p := site(t)
		if len(ops) > 32<<10 {
			return
		}
		p.Parse(p.End(p.Begin(p.Raw(func(w *xdr.Writer) {
			w.String("")
			w.Uint32(0)
			w.Uint32(n)
			w.FixedOpaque(ops[:len(ops)&^3])
		}))))
		p.run(t, ok, at()...)
	})
}
