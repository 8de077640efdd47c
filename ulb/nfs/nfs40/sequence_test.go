package nfs40_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// confirmed returns a confirmed owner with "file" open.
func confirmed(t testing.TB) (*owner, wire.StateID4) {
	t.Helper()
	o := newClient(t).owner("o")
	return o, o.opens(t, "file", bothMode, denyNone)
}

func TestOpenConfirm(t *testing.T) {
	o := newClient(t).owner("o")
	res := opened(t, o.run(t, ok, putRootFH, o.open("file", bothMode, denyNone)), 1)
	if res.Rflags&wire.Open4ResultConfirm == 0 || res.Stateid.Seqid != 1 {
		t.Fatalf("a new owner: %+v", res)
	}
	id := stateID(t, o.run(t, ok, join(at("file"), o.confirm(res.Stateid))...))
	if id.Other != res.Stateid.Other || id.Seqid != 2 {
		t.Errorf("%v after %v", id, res.Stateid)
	}
	res = opened(t, o.run(t, ok, putRootFH, o.open("file", readMode, denyNone)), 1)
	if res.Rflags&wire.Open4ResultConfirm != 0 {
		t.Error("to be confirmed once more")
	}
	// A confirmed owner cannot be confirmed again.
	o.run(t, wire.NFS4ErrBadStateID, join(at("file"), o.confirm(res.Stateid))...)
}

// The requests of a new owner may begin with any number (RFC 7530 §9.1.11).
func TestFirstNumber(t *testing.T) {
	for _, first := range []uint32{1, 5, 1 << 31, 1<<32 - 1} {
		o := newClient(t).owner("o")
		o.seqid = first
		res := opened(t, o.run(t, ok, putRootFH, o.open("file", bothMode, denyNone)), 1)
		o.run(t, ok, join(at("file"), o.confirm(res.Stateid))...)
	}
}

// After the largest number, the server accepts 0 and 1 (RFC 7530 §9.1.3), because clients use both.
func TestNumbersWrapAround(t *testing.T) {
	for _, after := range []uint32{0, 1} {
		o := newClient(t).owner("o")
		o.seqid = 1<<32 - 2
		id := o.opens(t, "file", bothMode, denyNone)
		o.seqid = after
		o.run(t, ok, join(at("file"), o.close(id))...)
		o.run(t, ok, putRootFH, o.open("file", bothMode, denyNone))
	}
}

func TestOpenConfirmThatCannotBe(t *testing.T) {
	o := newClient(t).owner("o")
	res := opened(t, o.run(t, ok, putRootFH, o.open("file", bothMode, denyNone)), 1)
	id := res.Stateid
	other := id
	other.Other[11]++
	o.run(t, wire.NFS4ErrBadStateID, join(at("file"), o.confirm(other))...)
	o.seqid--
	o.run(t, wire.NFS4ErrBadStateID, join(at("dir", "inner"), o.confirm(id))...)
	o.seqid--
	o.run(t, wire.NFS4ErrBadStateID, join(at("file"), o.confirm(anonymous))...)
	o.seqid--
	// A confirmation with a wrong number ends the unconfirmed open (RFC 7530 §16.18.4).
	o.seqid += 3
	o.run(t, wire.NFS4ErrBadSeqID, join(at("file"), o.confirm(id))...)
	o.seqid -= 4
	o.run(t, wire.NFS4ErrBadStateID, join(at("file"), o.confirm(id))...)
}

// An unconfirmed open allows only its confirmation (RFC 7530 §16.18.5).
func TestUnconfirmedStateID(t *testing.T) {
	c := newClient(t)
	o := c.owner("o")
	id := opened(t, o.run(t, ok, putRootFH, o.open("file", bothMode, denyNone)), 1).Stateid
	for _, x := range []func() op{
		func() op { return read(id, 0, 1) },
		func() op { return write(id, 0, "x") },
		func() op { return setattr(id, size(0)) },
		func() op { return o.close(id) },
		func() op { return o.downgrade(id, readMode, denyNone) },
		func() op { return c.locker("l").first(o, id, wire.ReadLt, 0, 1) },
	} {
		seqid := o.seqid
		o.run(t, wire.NFS4ErrBadStateID, join(at("file"), x())...)
		o.seqid = seqid
	}
	o.run(t, ok, join(at("file"), o.confirm(id))...)
}

// A second OPEN of an unconfirmed owner replaces the first open, whatever number the OPEN has (RFC
// 7530 §16.18.5).
func TestUnconfirmedOpenIsReplaced(t *testing.T) {
	for _, next := range []uint32{1, 2, 9} {
		c := newClient(t)
		o := c.owner("o")
		first := opened(t, o.run(t, ok, putRootFH, o.open("file", bothMode, denyBoth)), 1)
		o.seqid = next
		second := opened(t, o.run(t, ok, putRootFH, o.open("file", bothMode, denyBoth)), 1)
		if second.Rflags&wire.Open4ResultConfirm == 0 {
			t.Error("not to be confirmed")
		}
		if second.Stateid != first.Stateid {
			seqid := o.seqid
			o.run(t, wire.NFS4ErrBadStateID, join(at("file"), o.confirm(first.Stateid))...)
			o.seqid = seqid
		}
		id := stateID(t, o.run(t, ok, join(at("file"), o.confirm(second.Stateid))...))
		o.run(t, ok, join(at("file"), o.close(id))...)
		// The first open has ended.
		c.other(t, "other").owner("o").opens(t, "file", bothMode, denyBoth)
	}
}

// If an owner repeats its first OPEN over another connection, it gets the stored reply, although
// the owner is not confirmed yet (RFC 7530 §9.1.9). The server does not execute the OPEN again.
// After an unconfirmed open has ended, the server does not repeat its reply.
func TestFirstOpenComesAgain(t *testing.T) {
	c := newClient(t)
	o := c.owner("o")
	ops := []op{putRootFH, o.openHow("new", bothMode, denyNone, creating(wire.Guarded4, mode(0o600)))}
	first := opened(t, o.run(t, ok, ops...), 1)
	again := &peer{c.Site.Peer(0)}
	if second := opened(t, again.run(t, ok, ops...), 1); second.Stateid != first.Stateid {
		t.Errorf("the OPEN that comes again is answered %v, at first %v", second.Stateid, first.Stateid)
	}
	number := o.seqid
	o.seqid += 5
	o.run(t, wire.NFS4ErrBadSeqID, join(at("new"), o.confirm(first.Stateid))...) // ends the open
	o.seqid = number
	o.run(t, wire.NFS4ErrExist, ops...)
}

// numbered has the operations that an owner numbers. Each function returns a compound with the next
// number, for an owner with "file" open and a lock-owner with a lock on it.
var numbered = map[string]func(f *numberedSite) []op{
	"OPEN":             func(f *numberedSite) []op { return []op{putRootFH, f.o.open("file", readMode, denyNone)} },
	"OPEN of bad name": func(f *numberedSite) []op { return []op{putRootFH, f.o.open("a/b", readMode, denyNone)} },
	"OPEN that fails":  func(f *numberedSite) []op { return []op{putRootFH, f.o.open("missing", readMode, denyNone)} },
	"OPEN that creates": func(f *numberedSite) []op {
		return []op{putRootFH, f.o.openHow("new", readMode, denyNone, creating(wire.Guarded4, mode(0o600)))}
	},
	"OPEN_DOWNGRADE":      func(f *numberedSite) []op { return join(at("file"), f.o.downgrade(f.id, readMode, denyNone)) },
	"OPEN_DOWNGRADE none": func(f *numberedSite) []op { return join(at("file"), f.o.downgrade(f.id, 0, denyNone)) },
	"CLOSE":               func(f *numberedSite) []op { return join(at("file"), f.o.close(f.id)) },
	"LOCK of a new owner": func(f *numberedSite) []op {
		return join(at("file"), f.peerLocker("m").first(f.o, f.id, wire.WriteLt, 100, 1))
	},
	"LOCK":                func(f *numberedSite) []op { return join(at("file"), f.l.lock(f.lock, wire.WriteLt, 200, 1)) },
	"LOCK that is denied": func(f *numberedSite) []op { return join(at("file"), f.l.lock(f.lock, wire.WriteLt, 5000, 1)) },
	"LOCKU":               func(f *numberedSite) []op { return join(at("file"), f.l.unlock(f.lock, 0, 5)) },
}

type numberedSite struct {
	*client
	o        *owner
	id, lock wire.StateID4
	l        *locker
	lockers  map[string]*locker
}

func (f *numberedSite) peerLocker(name string) *locker {
	if f.lockers[name] == nil {
		f.lockers[name] = f.locker(name)
	}
	return f.lockers[name]
}

func newNumbered(t testing.TB) *numberedSite {
	t.Helper()
	f := &numberedSite{client: newClient(t), lockers: map[string]*locker{}}
	f.o = f.owner("o")
	f.o.opens(t, "file", readMode, denyNone)
	f.id = f.o.opens(t, "file", bothMode, denyNone)
	f.l = f.locker("l")
	f.lock = stateID(t, f.run(t, ok, join(at("file"), f.l.first(f.o, f.id, wire.WriteLt, 0, 10))...))
	other := f.other(t, "other")
	oo, ol := other.owner("o"), other.locker("l")
	other.run(t, ok, join(at("file"), ol.first(oo, oo.opens(t, "file", bothMode, denyNone), wire.WriteLt, 5000, 1))...)
	return f
}

// body returns the bytes of the last result.
func body(t testing.TB, r *nfs4test.Result) []byte {
	t.Helper()
	var b rest
	last(t, r, &b)
	return b
}

type rest []byte

func (b *rest) Decode(d *xdr.Decoder) { *b = bytes.Clone(d.FixedOpaque(d.Len())) }

// A repeated request gets the first reply, and the server does not execute it again (RFC 7530
// §9.1.7). This holds for any number of repetitions, over other connections, and after requests of
// other owners.
func TestReplays(t *testing.T) {
	for name, make := range numbered {
		t.Run(name, func(t *testing.T) {
			f := newNumbered(t)
			ops := make(f)
			first := f.Compound(ops...)
			for i := range 3 {
				other := f.owner(fmt.Sprint("another ", i))
				f.run(t, ok, putRootFH, other.open("file", readMode, denyNone), getFH, read(anonymous, 0, 100))
				again := (&peer{f.Site.Peer(0)}).Compound(ops...)
				if again.Status != first.Status || len(again.Ops) != len(first.Ops) {
					t.Fatalf("%v, first %v", again.Status, first.Status)
				}
				if got, want := body(t, again), body(t, first); !bytes.Equal(got, want) {
					t.Errorf("%x, first %x", got, want)
				}
			}
		})
	}
}

// Operations after a repeated OPEN have the opened file as current file handle.
func TestReplayOfOpenLeadsToTheFile(t *testing.T) {
	f := newNumbered(t)
	ops := []op{putRootFH, f.o.open("file", readMode, denyNone), getFH}
	var first, again wire.GetFH4Res
	last(t, f.run(t, ok, ops...), &first)
	last(t, f.run(t, ok, ops...), &again)
	if !bytes.Equal(first.ResOK.Object, again.ResOK.Object) || !bytes.Equal(first.ResOK.Object, f.handle(t, "file")) {
		t.Error("another file")
	}
}

// The server refuses a request whose number is neither the next nor the last. The request changes
// nothing.
func TestNumbersOutOfOrder(t *testing.T) {
	for name, make := range numbered {
		for _, by := range []int{-100, -2, 1, 2, 100} {
			t.Run(name, func(t *testing.T) {
				f := newNumbered(t)
				o, l, m := f.o.seqid, f.l.seqid, f.peerLocker("m")
				if name == "LOCK" || name == "LOCK that is denied" || name == "LOCKU" {
					f.l.seqid += uint32(by)
				} else {
					f.o.seqid += uint32(by)
				}
				f.run(t, wire.NFS4ErrBadSeqID, make(f)...)
				f.o.seqid, f.l.seqid, m.seqid = o, l, 1
				if s := f.Compound(make(f)...).Status; s == wire.NFS4ErrBadSeqID {
					t.Error("the right number is refused")
				}
			})
		}
	}
}

// The server refuses another operation with the number of the last request (RFC 7530 §9.1.9).
func TestReplayOfAnotherOperation(t *testing.T) {
	f := newNumbered(t)
	f.run(t, ok, putRootFH, f.o.open("file", readMode, denyNone))
	f.o.seqid--
	f.run(t, wire.NFS4ErrBadSeqID, join(at("file"), f.o.downgrade(f.id, readMode, denyNone))...)
	f.o.seqid--
	f.run(t, wire.NFS4ErrBadSeqID, join(at("file"), f.o.close(f.id))...)
	f.l.seqid--
	f.run(t, wire.NFS4ErrBadSeqID, join(at("file"), f.l.unlock(f.lock, 0, 1))...)
}

// Some errors use up the request's number, and others do not (RFC 7530 §9.1.7).
func TestErrorsAndNumbers(t *testing.T) {
	bad := func(id wire.StateID4) wire.StateID4 { id.Other[11] += 7; return id }
	stale := func(id wire.StateID4) wire.StateID4 { id.Other[0] += 7; return id }
	for _, c := range []struct {
		name string
		want status
		used bool
		make func(f *numberedSite) []op
	}{
		{"NOENT", wire.NFS4ErrNoEnt, true, func(f *numberedSite) []op { return []op{putRootFH, f.o.open("missing", 1, 0)} }},
		{"INVAL", wire.NFS4ErrInvalid, true, func(f *numberedSite) []op { return []op{putRootFH, f.o.open("file", 0, 0)} }},
		{"ISDIR", wire.NFS4ErrIsDir, true, func(f *numberedSite) []op { return []op{putRootFH, f.o.open("dir", 1, 0)} }},
		{"NOTDIR", wire.NFS4ErrNotDir, true, func(f *numberedSite) []op { return join(at("file"), f.o.open("x", 1, 0)) }},
		{"NO_GRACE", wire.NFS4ErrNoGrace, true, func(f *numberedSite) []op {
			return join(at("file"), f.o.claim(wire.OpenClaim4{Claim: wire.ClaimPrevious}, 1, 0, wire.Openflag4{}))
		}},
		{"OLD_STATEID", wire.NFS4ErrOldStateID, true, func(f *numberedSite) []op {
			old := f.id
			old.Seqid--
			return join(at("file"), f.o.close(old))
		}},
		{"NOFILEHANDLE", wire.NFS4ErrNoFileHandle, false, func(f *numberedSite) []op { return []op{f.o.open("file", 1, 0)} }},
		{"BAD_STATEID", wire.NFS4ErrBadStateID, false, func(f *numberedSite) []op { return join(at("file"), f.o.close(bad(f.id))) }},
		{"STALE_STATEID", wire.NFS4ErrStaleStateID, false, func(f *numberedSite) []op { return join(at("file"), f.o.close(stale(f.id))) }},
		{"STALE_CLIENTID", wire.NFS4ErrStaleClientID, false, func(f *numberedSite) []op {
			other := f.owner("o")
			other.client = &client{peer: f.peer, id: 99}
			return []op{putRootFH, other.open("file", 1, 0)}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newNumbered(t)
			next := f.o.seqid
			f.run(t, c.want, c.make(f)...)
			if f.o.seqid = next; c.used {
				f.o.seqid++
			}
			f.run(t, ok, join(at("file"), f.o.downgrade(f.id, bothMode, denyNone))...)
		})
	}
}

// The server answers a repeated CLOSE, although its stateid is gone, until the owner sends another
// request (RFC 7530 §9.10.1).
func TestCloseComesAgain(t *testing.T) {
	o, id := confirmed(t)
	o.opens(t, "file", readMode, denyNone)
	id.Seqid++
	closing := join(at("file"), o.close(id))
	o.run(t, ok, closing...)
	o.run(t, ok, closing...)
	o.opens(t, "file", readMode, denyNone)
	o.oneOf(t, []status{wire.NFS4ErrBadSeqID, wire.NFS4ErrBadStateID}, closing...)
}

// Each owner has numbers of its own. An open-owner and a lock-owner with one name are two owners.
func TestOwnersAreApart(t *testing.T) {
	c := newClient(t)
	a, b := c.owner("a"), c.owner("b")
	b.seqid = 77
	ida, idb := a.opens(t, "file", bothMode, denyNone), b.opens(t, "file", bothMode, denyNone)
	if ida.Other == idb.Other {
		t.Fatal("two owners share a stateid")
	}
	l := c.locker("a")
	lock := stateID(t, c.run(t, ok, join(at("file"), l.first(a, ida, wire.WriteLt, 0, 1))...))
	c.run(t, ok, join(at("file"), l.unlock(lock, 0, 1), b.close(idb), a.close(ida))...)
	// Owners of different clients have separate numbers too.
	d := c.other(t, "d").owner("a")
	d.opens(t, "file", bothMode, denyNone)
}

// Names of owners are bytes of any length up to NFS4_OPAQUE_LIMIT.
func TestNamesOfOwners(t *testing.T) {
	c := newClient(t)
	for _, name := range []string{"", "\x00", "\xff", string(make([]byte, wire.NFS4OpaqueLimit))} {
		c.owner(name).opens(t, "file", readMode, denyNone)
	}
}
