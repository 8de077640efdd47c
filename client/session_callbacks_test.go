package client_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/testserver"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A caller4 makes callbacks on the connection of f's only session.
type caller4 struct {
	t    testing.TB
	id   wire.SessionID4
	call rpc.Caller
}

func (f *fake4) caller() *caller4 {
	id, s := f.only()
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range s.conns {
		return &caller4{f.t, id, c.Caller()}
	}
	f.t.Fatal("no connection")
	return nil
}

// back is a callback operation.
type back struct {
	op   wire.CBOpNum
	args client.Encoder
}

func (k *caller4) sequence(slot, seq uint32) back {
	return back{wire.OpCBSequence, &wire.CBSequence4Args{Sessionid: k.id, Slotid: slot, Sequenceid: seq, Cachethis: true}}
}

// do makes a CB_COMPOUND, and returns the results.
func (k *caller4) do(ops ...back) []byte {
	k.t.Helper()
	var results []byte
	must(k.t, rpc.Do(testserver.Within(k.t), k.call, &rpc.Exchange{
		Program: 0x40000000, Version: wire.CallbackVersion, Procedure: wire.ProcCBCompound, MaxArgs: 2048, MaxResults: 4096,
		Args: func(w *xdr.Writer) {
			w.String("tag")
			w.Uint32(2)
			w.Uint32(0)
			w.Uint32(uint32(len(ops)))
			for _, o := range ops {
				w.Uint32(uint32(o.op))
				if o.args != nil {
					o.args.Encode(w)
				}
			}
		},
	}, func(d *xdr.Decoder) error {
		results = slices.Clone(d.Rest())
		return nil
	}))
	return results
}

// callbackOutcome returns the status of a CB_COMPOUND, and the number of its results.
func callbackOutcome(results []byte) (status wire.NFSStat4, n uint32) {
	d := xdr.NewDecoder(results)
	status = wire.NFSStat4(d.Uint32())
	d.Opaque(wire.NFS4OpaqueLimit)
	return status, d.Uint32()
}

// Callbacks arrive over TCP and RDMA. Each is executed once, even if the server sends it again.
func TestSessionRecall(t *testing.T) {
	for _, name := range []string{"tcp", "iwarp", "memory", "memory2"} {
		t.Run(name, func(t *testing.T) {
			f, server := newFake4(t)
			recalls := make(chan client.Recall, 8)
			f.session(server.Targets()[name], client.SessionConfig{Callbacks: client.Callbacks{
				Recall: func(r client.Recall) wire.NFSStat4 {
					recalls <- r
					return wire.NFS4OK
				},
			}})
			k := f.caller()
			must(t, rpc.Do(testserver.Within(t), k.call, &rpc.Exchange{Program: 0x40000000, Version: wire.CallbackVersion}, nil))
			id := wire.StateID4{Seqid: 3, Other: [12]byte{1, 2, 3}}
			recall := back{wire.OpCBRecall, &wire.CBRecall4Args{Stateid: id, Truncate: true, FH: wire.NFSFH4("file")}}
			first := k.do(k.sequence(0, 1), recall)
			if status, n := callbackOutcome(first); status != wire.NFS4OK || n != 2 {
				t.Fatalf("%v, %d operations", status, n)
			}
			r := await.Receive(t, "the recall", recalls)
			if string(r.File) != "file" || r.Delegation != id || !r.Truncate {
				t.Errorf("%+v", r)
			}
			if again := k.do(k.sequence(0, 1), recall); !bytes.Equal(first, again) {
				t.Errorf("a retry gets\n%x, not\n%x", again, first)
			}
			if len(recalls) > 0 {
				t.Error("a retry was executed")
			}
			if status, _ := callbackOutcome(k.do(k.sequence(0, 2), recall)); status != wire.NFS4OK || len(recalls) != 1 {
				t.Errorf("%v, %d recalls", status, len(recalls))
			}
		})
	}
}

// The session answers invalid callbacks, and callbacks without a function in Callbacks, with the
// errors of RFC 8881 §20.
func TestSessionCallbackErrors(t *testing.T) {
	f, server := newFake4(t)
	notified := make(chan string, 1)
	s := f.session(server.Targets()["tcp"], client.SessionConfig{Callbacks: client.Callbacks{
		NotifyLock: func(file client.Handle, owner []byte) { notified <- string(file) + " " + string(owner) },
		Attributes: func(file client.Handle, wanted wire.Bitmap4) (wire.FAttr4, wire.NFSStat4) {
			if string(file) != "mine" {
				return wire.FAttr4{}, wire.NFS4ErrBadHandle
			}
			return client.SizeAttribute(77), wire.NFS4OK
		},
	}})
	k := f.caller()
	seq := uint32(0)
	next := func() back {
		seq++
		return k.sequence(1, seq)
	}
	getattr := func(file string) back {
		return back{wire.OpCBGetattr, &wire.CBGetattr4Args{FH: wire.NFSFH4(file), AttrRequest: wire.Bits(wire.Fattr4Size)}}
	}
	wrong := *k
	wrong.id[0]++
	_, held := f.only()
	for _, c := range []struct {
		name string
		ops  func() []back
		want wire.NFSStat4
		n    uint32
	}{
		{"nothing", func() []back { return nil }, wire.NFS4OK, 0},
		{"no CB_SEQUENCE", func() []back { return []back{getattr("mine")} }, wire.NFS4ErrOpNotInSession, 1},
		{"another session", func() []back { return []back{wrong.sequence(0, 1)} }, wire.NFS4ErrBadSession, 1},
		{"a slot too high", func() []back { return []back{k.sequence(16, 1)} }, wire.NFS4ErrBadSlot, 1},
		{"a highest slot too high", func() []back {
			return []back{{wire.OpCBSequence, &wire.CBSequence4Args{Sessionid: k.id, Sequenceid: 1, HighestSlotid: 16}}}
		}, wire.NFS4ErrBadHighSlot, 1},
		{"a number left out", func() []back { return []back{k.sequence(1, seq+2)} }, wire.NFS4ErrSeqMisordered, 1},
		{"CB_SEQUENCE twice", func() []back { a := next(); return []back{a, a} }, wire.NFS4ErrSequencePos, 2},
		{"an operation that there is not", func() []back { return []back{next(), {2, nil}} }, wire.NFS4ErrOpIllegal, 2},
		{"one far off", func() []back { return []back{next(), {10043, nil}} }, wire.NFS4ErrOpIllegal, 2},
		{"one without a hook", func() []back { return []back{next(), {wire.OpCBRecall, &wire.CBRecall4Args{}}} }, wire.NFS4ErrNotSupp, 2},
		{"one that is not served", func() []back { return []back{next(), {wire.OpCBLayoutrecall, nil}} }, wire.NFS4ErrNotSupp, 2},
		{"arguments that are not there", func() []back { return []back{next(), {wire.OpCBNotifyLock, nil}} }, wire.NFS4ErrBadXDR, 2},
		{"attributes", func() []back { return []back{next(), getattr("mine")} }, wire.NFS4OK, 2},
		{"attributes of another file", func() []back { return []back{next(), getattr("other")} }, wire.NFS4ErrBadHandle, 2},
		{"a lock", func() []back {
			return []back{next(), {wire.OpCBNotifyLock, &wire.CBNotifyLock4Args{
				FH: wire.NFSFH4("f"), LockOwner: wire.StateOwner4{Clientid: s.ClientID(), Owner: []byte("me")},
			}}}
		}, wire.NFS4OK, 2},
		{"fewer slots", func() []back {
			return []back{next(), {wire.OpCBRecallSlot, &wire.CBRecallSlot4Args{TargetHighestSlotid: 2}}}
		}, wire.NFS4OK, 2},
	} {
		if status, n := callbackOutcome(k.do(c.ops()...)); status != c.want || n != c.n {
			t.Errorf("%s: %v after %d operations, not %v after %d", c.name, status, n, c.want, c.n)
		}
	}
	if got := await.Receive(t, "the lock", notified); got != "f me" {
		t.Errorf("%q", got)
	}
	// After CB_RECALL_SLOT the session sends a SEQUENCE that tells which slots it uses now.
	f.set(func() { held.highest = 0 })
	for op := range f.heard {
		if op == wire.OpSequence {
			break
		}
	}
}

// A callback that refers to a request whose reply has not arrived yet gets NFS4ERR_DELAY (RFC
// 8881 §2.10.6.3).
func TestSessionReferringCalls(t *testing.T) {
	f, server := newFake4(t)
	s := f.session(server.Targets()["tcp"], client.SessionConfig{})
	k := f.caller()
	gate := make(chan struct{})
	f.set(func() { f.stall = gate })
	ended := make(chan error, 1)
	go func() {
		_, err := s.NFS4().Write(testserver.Within(t), nil, anonymous, 0, []byte("x"), wire.FileSync4)
		ended <- err
	}()
	await.Receive(t, "the WRITE", f.stalled)
	_, held := f.only()
	refers := func(seq uint32) back {
		return back{wire.OpCBSequence, referring{wire.CBSequence4Args{Sessionid: k.id, Sequenceid: 1}, seq}}
	}
	f.mu.Lock()
	last := held.slots[0].seq
	f.mu.Unlock()
	if status, _ := callbackOutcome(k.do(refers(last))); status != wire.NFS4ErrDelay {
		t.Errorf("about a reply under way: %v", status)
	}
	f.set(func() { f.stall = nil })
	close(gate)
	must(t, await.Receive(t, "the WRITE ends", ended))
	if status, _ := callbackOutcome(k.do(refers(last))); status != wire.NFS4OK {
		t.Errorf("about a reply that has come: %v", status)
	}
}

// referring is a CB_SEQUENCE that refers to a request on slot 0.
type referring struct {
	wire.CBSequence4Args
	seq uint32
}

func (r referring) Encode(w *xdr.Writer) {
	r.EncodeHead(w)
	w.Uint32(1)
	(&wire.ReferringCallList4{Sessionid: r.Sessionid}).EncodeHead(w)
	w.Uint32(1)
	(&wire.ReferringCall4{Sequenceid: r.seq, Slotid: 0}).Encode(w)
}
