package client

import (
	"slices"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// Whatever bytes a reply has, the request ends or waits to be sent again, and no slot is lost.
func FuzzSessionReply(f *testing.F) {
	w := xdr.NewWriter(make([]byte, 0, 1024))
	goodSequence(w, &nfs4wire.Sequence4Args{Sessionid: nfs4wire.SessionID4{1}, Sequenceid: 1}, 3)
	w.Uint32(uint32(nfs4wire.OpPutRootFH))
	w.Uint32(0)
	w.Uint32(uint32(nfs4wire.OpGetFH))
	w.Uint32(0)
	w.Opaque([]byte("handle"))
	f.Add(w.Bytes())
	w.PatchUint32(0, uint32(nfs4wire.NFS4ErrBadSession))
	w.PatchUint32(16, uint32(nfs4wire.NFS4ErrBadSession))
	f.Add(w.Bytes()[:20])
	f.Fuzz(func(t *testing.T, reply []byte) {
		first := true
		s, _ := cannedSession(func(w *xdr.Writer, args *nfs4wire.Sequence4Args) {
			if first {
				first = false
				w.FixedOpaque(reply)
				return
			}
			goodSequence(w, args, 1)
		})
		s.recovering = true // the test makes no new session
		s.phase = phaseUp
		s.life, s.end = t.Context(), func() {}
		s.delay = newStopped()
		var res nfs4wire.GetFH4Res
		ended := 0
		c := &Compound{
			Ops:  []Op{{Number: nfs4wire.OpPutRootFH}, {Number: nfs4wire.OpGetFH, Res: &res}},
			Done: func(*Compound) { ended++ },
		}
		s.Start(c)
		switch {
		case ended == 1 && s.phase == phaseUp && slices.ContainsFunc(s.slots.slots, func(sl *slot) bool { return sl.busy }):
			t.Errorf("%x: a slot is lost", reply)
		case ended == 0 && c.in == nil && s.links[0].conn != nil:
			t.Errorf("%x: the request is lost", reply)
		case ended > 1:
			t.Errorf("%x: it ended %d times", reply, ended)
		}
	})
}

// Whatever bytes a callback has, the session's reply can be decoded, and no slot stays busy.
func FuzzSessionCallback(f *testing.F) {
	w := xdr.NewWriter(make([]byte, 0, 512))
	w.Opaque([]byte("tag"))
	w.Uint32(2)
	w.Uint32(0)
	w.Uint32(2)
	w.Uint32(uint32(nfs4wire.OpCBSequence))
	(&nfs4wire.CBSequence4Args{Sessionid: nfs4wire.SessionID4{1}, Sequenceid: 1}).Encode(w)
	f.Add(w.Bytes())
	w.Uint32(uint32(nfs4wire.OpCBRecall))
	(&nfs4wire.CBRecall4Args{FH: []byte("handle")}).Encode(w)
	f.Add(w.Bytes())
	f.Fuzz(func(t *testing.T, args []byte) {
		s, _ := cannedSession(nil)
		s.cfg.Callbacks.Recall = func(Recall) nfs4wire.NFSStat4 { return nfs4wire.NFS4OK }
		s.cfg.Callbacks.Attributes = func(Handle, nfs4wire.Bitmap4) (nfs4wire.FAttr4, nfs4wire.NFSStat4) {
			return SizeAttribute(1), nfs4wire.NFS4OK
		}
		s.back.session = s
		s.back.acceptFrom(nfs4wire.SessionID4{1}, 4)
		for range 2 { // the second time as a repetition
			c := &rpc.Call{}
			c.Header.Procedure = nfs4wire.ProcCBCompound
			c.Args.Reset(args, 0, nil)
			w := xdr.NewWriter(make([]byte, 0, maxCallback))
			if out := s.back.Serve(c, w); out != rpc.Done || w.Overflow() {
				continue
			}
			d := xdr.NewDecoder(w.Bytes())
			n, status := beginResults(d)
			if d.Err() != nil || n == 0 && status != nfs4wire.NFS4OK && status != nfs4wire.NFS4ErrMinorVersMismatch {
				t.Fatalf("%x: %d results, %v, %v", args, n, status, d.Err())
			}
		}
		for _, b := range s.back.slots {
			if b.busy {
				t.Fatalf("%x: a slot stays in use", args)
			}
		}
	})
}

// Take decodes all attributes of the mask, or returns an error.
func FuzzAttributes4(f *testing.F) {
	f.Add(uint32(1<<nfs4wire.Fattr4Size|1<<nfs4wire.Fattr4Type), uint32(1<<(nfs4wire.Fattr4Owner-32)), []byte("\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x01r\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, low, high uint32, values []byte) {
		mask := nfs4wire.Bitmap4{}
		for n := range uint32(64) {
			if word := [2]uint32{low, high}[n/32]; word&(1<<(n%32)) != 0 {
				mask.Set(n)
			}
		}
		var a Attributes4
		if err := a.Take(&nfs4wire.FAttr4{Attrmask: mask, AttrVals: values}); err == nil && a.Given != mask {
			t.Fatalf("%+v", a)
		}
	})
}
