package nlm_test

import (
	"errors"
	"math"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
)

// callOf makes a call of a version.
func (h *host) callOf(version uint32, p wire.Procedure, args encoder, res decoder) {
	h.t.Helper()
	d, err := h.run(h.messageOf(version, p, args)).Results()
	if err != nil {
		h.t.Fatalf("%v of version %d: %v", p, version, err)
	}
	if res.Decode(d); d.Finish() != nil {
		h.t.Fatalf("%v of version %d: results do not decode", p, version)
	}
}

func (h *host) lock3(w want) wire.Lock3 {
	l := h.lock4(w)
	return wire.Lock3{CallerName: l.CallerName, FileHandle: l.FileHandle, OH: l.OH, SVID: l.SVID, Offset: uint32(w.offset), Length: uint32(w.length)}
}

// Versions 1 and 3 lock what version 4 does. Their largest length does not mean to the end, and their statuses end with
// that of a deadlock (NLM-48).
func TestOlderVersions(t *testing.T) {
	for _, version := range []uint32{1, 3} {
		s := newSite(t, options{})
		a, b := s.host("a", "10.0.0.2:900", 1000), s.host("b", "10.0.0.3:900", 1000)
		lock := func(h *host, w want) wire.Stat4 {
			var res wire.Res4
			h.callOf(version, wire.ProcLock, &wire.LockArgs3{Cookie: cookie, Exclusive: w.exclusive, Lock: h.lock3(w)}, &res)
			is(t, "cookie", string(res.Cookie), string(cookie))
			return res.Stat
		}
		test := func(h *host, w want) wire.TestReply3 {
			var res wire.TestRes3
			h.callOf(version, wire.ProcTest, &wire.TestArgs3{Cookie: cookie, Exclusive: w.exclusive, Lock: h.lock3(w)}, &res)
			return res.Reply
		}
		is(t, "LOCK", lock(a, want{1, 10, 10, true}), wire.Granted)
		is(t, "LOCK of version 4", b.lock(want{1, 19, 5, false}), wire.Denied)
		got := b.test(want{1, 0, toEnd, true}).Holder
		if got.Offset != 10 || got.Length != 10 || got.SVID != 1 {
			t.Errorf("version 4 sees %+v", got)
		}
		is(t, "LOCK of the largest length", lock(a, want{2, 100, math.MaxUint32, true}), wire.Granted)
		is(t, "LOCK of version 4 behind it", b.lock(want{1, 100 + math.MaxUint32, toEnd, true}), wire.Granted)
		is(t, "LOCK to the end", lock(a, want{3, 1 << 31, toEnd, false}), wire.Denied)
		if got := test(a, want{2, 100, toEnd, true}); got.Stat != wire.Denied || got.Holder.Offset != math.MaxUint32 || got.Holder.Length != toEnd {
			t.Errorf("a holder beyond 32 bits is told as %+v", got)
		}
		var res wire.Res4
		b.callOf(version, wire.ProcUnlock, &wire.UnlockArgs3{Cookie: cookie, Lock: b.lock3(want{1, 0, toEnd, false})}, &res)
		is(t, "UNLOCK", res.Stat, wire.Granted)
		is(t, "TEST when it is free", test(a, want{2, 100, toEnd, true}).Stat, wire.Granted)
		a.callOf(version, wire.ProcCancel, &wire.CancelArgs3{Cookie: cookie, Lock: a.lock3(want{1, 10, 10, true})}, &res)
		is(t, "CANCEL of nothing", res.Stat, wire.Denied)
		is(t, "LOCK of a handle that is none", lock(a.with("none"), want{1, 0, 1, true}), wire.DeniedNoLocks)
		share := wire.ShareArgs4{Cookie: cookie, Share: wire.Share4{CallerName: []byte("a"), FileHandle: a.file, OH: []byte("o"), Access: 3}}
		if version == 3 {
			var shared wire.ShareRes4
			a.callOf(3, wire.ProcShare, &share, &shared)
			is(t, "SHARE", shared.Stat, wire.Granted)
			continue
		}
		_, err := a.run(a.messageOf(1, wire.ProcShare, &share)).Results()
		if e, ok := errors.AsType[*rpc.ReplyError](err); !ok || e.Stat != rpc.AcceptProcUnavail {
			t.Errorf("SHARE of version 1: %v", err)
		}
		_, err = a.run(a.messageOf(2, wire.ProcNull, nil)).Results()
		if e, ok := errors.AsType[*rpc.ReplyError](err); !ok || e.Stat != rpc.AcceptProgMismatch || e.Low != 1 || e.High != 4 {
			t.Errorf("version 2: %v", err)
		}
	}
}
