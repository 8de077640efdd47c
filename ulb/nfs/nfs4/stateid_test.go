package nfs4_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// with returns id with another seqid.
func with(id wire.StateID4, seqid uint32) wire.StateID4 {
	id.Seqid = seqid
	return id
}

// Each error of a stateid has its own status (RFC 8881 §8.2.4).
func TestStateidsThatAreWrong(t *testing.T) {
	s := openSite(t)
	f, stranger := newFiler(t, s, 1), newFiler(t, s, 1)
	o := f.create("file", "me", both, 0)
	o = f.open(openArgs("file", "me", readable, 0)) // this stateid has a newer seqid than the first one
	elsewhere := f.create("elsewhere", "me", both, 0)
	closed := f.create("closed", "me", both, 0)
	f.close(closed)
	theirs := stranger.open(openArgs("file", "me", both, 0))

	id := o.Stateid
	never := id
	never.Other[7]++ // an index that was not given out
	never.Other[5]++
	beyond := id
	beyond.Other[4] = 0xff
	generation := id
	generation.Other[11]++
	epoch := id
	epoch.Other[0] ^= 1
	allOnes := state.Bypass
	for _, c := range []struct {
		name string
		id   wire.StateID4
		want wire.NFSStat4
		// special is true if the stateid is a special one, which needs no state.
		special bool
	}{
		{"the newest", id, wire.NFS4OK, false},
		{"seqid 0, which stands for the newest", with(id, 0), wire.NFS4OK, false},
		{"an older one", with(id, 1), wire.NFS4ErrOldStateID, false},
		{"one of the future", with(id, 3), wire.NFS4ErrBadStateID, false},
		{"one just before seqids begin again", with(id, 1<<32-1), wire.NFS4ErrOldStateID, false},
		{"that of another file", elsewhere.Stateid, wire.NFS4ErrBadStateID, false},
		{"one that was closed", closed.Stateid, wire.NFS4ErrBadStateID, false},
		{"one that was closed, whatever its seqid", with(closed.Stateid, 0), wire.NFS4ErrBadStateID, false},
		{"another client's", theirs.Stateid, wire.NFS4ErrBadStateID, false},
		{"one that never was", never, wire.NFS4ErrBadStateID, false},
		{"one that cannot be", beyond, wire.NFS4ErrBadStateID, false},
		{"one of another generation", generation, wire.NFS4ErrBadStateID, false},
		{"one of another life of the server", epoch, wire.NFS4ErrBadStateID, false},
		{"the anonymous one", state.Anonymous, wire.NFS4OK, true},
		{"the one that bypasses", state.Bypass, wire.NFS4OK, true},
		{"the current one, where there is none", state.CurrentID, wire.NFS4ErrBadStateID, true},
		{"the invalid one", state.InvalidID, wire.NFS4ErrBadStateID, true},
		{"zeros with a seqid", with(state.Anonymous, 7), wire.NFS4ErrBadStateID, true},
		{"ones with a seqid", with(allOnes, 7), wire.NFS4ErrBadStateID, true},
		{"ones without a seqid", with(allOnes, 0), wire.NFS4ErrBadStateID, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.t = t
			f.want(c.want, putFH(o.fh), opRead(c.id, 0, 1))
			f.want(c.want, putFH(o.fh), opWrite(c.id, 0, "x"))
			if c.special {
				c.want = wire.NFS4ErrBadStateID
			}
			if c.want != wire.NFS4OK {
				f.want(c.want, putFH(o.fh), opClose(c.id, 0))
				f.want(c.want, putFH(o.fh), opDowngrade(c.id, readable, 0))
				f.want(c.want, putFH(o.fh), opFirstLock(c.id, "locker", wire.ReadLt, 0, 1))
			}
			f.want(wire.NFS4ErrBadStateID, putFH(o.fh), opUnlock(c.id, 0, 1)) // the stateid belongs to no lock
			f.want(wire.NFS4ErrBadStateID, putFH(o.fh), nfs4test.Op{Number: wire.OpDelegreturn, Args: &wire.DelegReturn4Args{Stateid: c.id}})
			if c.id == elsewhere.Stateid {
				return // the next operations have no file handle, so they cannot notice the other file
			}
			if got := f.test(c.id); got[0] != c.want {
				t.Errorf("TEST_STATEID: %v", got)
			}
			if c.want == wire.NFS4OK {
				c.want = wire.NFS4ErrLocksHeld
			}
			f.want(c.want, nfs4test.Op{Number: wire.OpFreeStateID, Args: &wire.FreeStateID4Args{Stateid: c.id}})
		})
	}
}

// ids is the arguments of a TEST_STATEID.
type ids []wire.StateID4

// test executes a TEST_STATEID, and returns its statuses.
func (f *filer) test(all ...wire.StateID4) (got []wire.NFSStat4) {
	f.t.Helper()
	r := f.want(wire.NFS4OK, nfs4test.Op{Number: wire.OpTestStateID, Args: ids(all)})
	var res wire.TestStateID4Res
	r.Ops[0].Into(f.t, &res)
	var s wire.NFSStat4
	for res.ResOK.StatusCodes.Next(&s) {
		got = append(got, s)
	}
	return got
}

// The current stateid is the stateid that an earlier operation returned, as long as the current
// file handle is not set again (RFC 8881 §16.2.3.1.2).
func TestCurrentStateid(t *testing.T) {
	current := state.CurrentID
	s := openSite(t)
	f := newFiler(t, s, 1)
	lookupRoot := []nfs4test.Op{op(wire.OpPutRootFH)}
	at := func(ops ...nfs4test.Op) []nfs4test.Op { return append(slices.Clone(lookupRoot), ops...) }
	creates := opOpen(creating(openArgs("file", "me", both, 0), wire.Unchecked4, fileMode(0o600)))
	f.want(wire.NFS4OK, at(creates, opWrite(current, 0, "x"), opRead(current, 0, 1), opClose(current, 0))...)
	nothingLeft(t, s)
	opens := opOpen(openArgs("file", "me", both, 0))
	f.want(wire.NFS4OK, at(opens, opFirstLock(current, "locker", wire.WriteLt, 0, 1), opRead(current, 0, 1), opUnlock(current, 0, 1))...)
	for _, c := range []struct {
		name string
		ops  []nfs4test.Op
		want wire.NFSStat4
	}{
		{"with nothing before", at(opRead(current, 0, 1)), wire.NFS4ErrBadStateID},
		{"behind another PUTFH", at(opens, op(wire.OpPutRootFH), opRead(current, 0, 1)), wire.NFS4ErrBadStateID},
		{"behind a CLOSE", at(opens, opClose(current, 0), opRead(current, 0, 1)), wire.NFS4ErrBadStateID},
		{"behind a CLOSE, to close", at(opens, opClose(current, 0), opClose(current, 0)), wire.NFS4ErrBadStateID},
		{"saved and restored", at(opens, op(wire.OpSaveFH), op(wire.OpPutRootFH), op(wire.OpRestoreFH), opRead(current, 0, 1)), wire.NFS4OK},
		{"saved before there was one", at(op(wire.OpSaveFH), opens, op(wire.OpRestoreFH), opRead(current, 0, 1)), wire.NFS4ErrBadStateID},
		{"to free", at(opens, nfs4test.Op{Number: wire.OpFreeStateID, Args: &wire.FreeStateID4Args{Stateid: current}}), wire.NFS4ErrLocksHeld},
		{"downgraded", at(opens, opDowngrade(current, both, 0), opWrite(current, 0, "x")), wire.NFS4OK},
		{"to set the size", at(opens, nfs4test.Op{Number: wire.OpSetattr, Args: &wire.Setattr4Args{Stateid: current, ObjAttributes: fileSize(3)}}), wire.NFS4OK},
	} {
		if r := f.Compound(c.ops...); r.Status != c.want {
			t.Errorf("%s: %v", c.name, statuses(r))
		}
	}
	// Minor version 0 has no current stateid.
	zero := newFiler(t, s, 0)
	zero.want(wire.NFS4ErrBadStateID, at(opOpen(openArgs("file", "me", readable, 0)), opRead(current, 0, 1))...)
}

// A deny mode also applies to callers without an open, except for a READ with the bypass
// stateid.
func TestDenyModesAgainstSpecialStateids(t *testing.T) {
	s := openSite(t)
	f, other := newFiler(t, s, 1), newFiler(t, s, 1)
	o := f.create("file", "me", readable, wire.Open4ShareDenyWrite)
	size := nfs4test.Op{Number: wire.OpSetattr, Args: &wire.Setattr4Args{ObjAttributes: fileSize(0)}}
	other.want(wire.NFS4OK, putFH(o.fh), opRead(state.Anonymous, 0, 1))
	other.want(wire.NFS4ErrLocked, putFH(o.fh), opWrite(state.Anonymous, 0, "x"))
	other.want(wire.NFS4ErrLocked, putFH(o.fh), opWrite(state.Bypass, 0, "x"))
	other.want(wire.NFS4ErrLocked, putFH(o.fh), size)
	f.close(o)
	o = f.create("file", "me", readable, wire.Open4ShareDenyRead)
	other.want(wire.NFS4ErrLocked, putFH(o.fh), opRead(state.Anonymous, 0, 1))
	other.want(wire.NFS4OK, putFH(o.fh), opRead(state.Bypass, 0, 1))
	other.want(wire.NFS4OK, putFH(o.fh), opWrite(state.Anonymous, 0, "x"), size)
	f.close(o)
	other.want(wire.NFS4OK, putFH(o.fh), opRead(state.Anonymous, 0, 1))
	nothingLeft(t, s)
}

// A stateid permits the access of its open. A stateid for writing also permits reading
// (TestReadByAnOpenToWrite).
func TestOpenMode(t *testing.T) {
	s := openSite(t)
	f := newFiler(t, s, 1)
	for access, c := range map[uint32]struct{ read, write wire.NFSStat4 }{
		readable: {wire.NFS4OK, wire.NFS4ErrOpenMode}, writable: {wire.NFS4OK, wire.NFS4OK}, both: {wire.NFS4OK, wire.NFS4OK},
	} {
		o := f.create("file", "me", access, 0)
		f.want(c.read, putFH(o.fh), opRead(o.Stateid, 0, 1))
		f.want(c.write, putFH(o.fh), opWrite(o.Stateid, 0, "x"))
		f.want(c.write, putFH(o.fh), nfs4test.Op{Number: wire.OpSetattr, Args: &wire.Setattr4Args{Stateid: o.Stateid, ObjAttributes: fileSize(0)}})
		f.close(o)
	}
	nothingLeft(t, s)
}

// OPEN_DOWNGRADE accepts only the union of some of the opens.
func TestDowngrade(t *testing.T) {
	eachOpenSite(t, func(t *testing.T, s *nfs4test.Site) {
		f := newFiler(t, s, 1)
		o := f.create("file", "me", both, 0)
		f.want(wire.NFS4ErrInvalid, putFH(o.fh), opDowngrade(o.Stateid, readable, 0)) // it was never opened with this access alone
		f.want(wire.NFS4ErrInvalid, putFH(o.fh), opDowngrade(o.Stateid, both, readable))
		f.want(wire.NFS4ErrInvalid, putFH(o.fh), opDowngrade(o.Stateid, 0, 0))
		f.want(wire.NFS4ErrInvalid, putFH(o.fh), opDowngrade(o.Stateid, both, 4))
		o = f.open(openArgs("file", "me", readable, 0))
		r := f.want(wire.NFS4OK, putFH(o.fh), opDowngrade(o.Stateid, readable, 0))
		var res wire.OpenDowngrade4Res
		r.Ops[1].Into(t, &res)
		f.want(wire.NFS4ErrOldStateID, putFH(o.fh), opRead(o.Stateid, 0, 1))
		o.Stateid = res.ResOK.Stateid
		f.want(wire.NFS4OK, putFH(o.fh), opRead(o.Stateid, 0, 1))
		f.want(wire.NFS4ErrOpenMode, putFH(o.fh), opWrite(o.Stateid, 0, "x"))
		f.want(wire.NFS4ErrInvalid, putFH(o.fh), opDowngrade(o.Stateid, both, 0))
		f.close(o)
		nothingLeft(t, s)
	})
}

// The READs of one compound share the call's memory. A short READ does not mean the end of the
// file.
func TestSeveralReads(t *testing.T) {
	s := openSite(t)
	f := newFiler(t, s, 1)
	o := f.create("file", "me", both, 0)
	content := bytes.Repeat([]byte("0123456789abcdef"), 1024)
	f.want(wire.NFS4OK, putFH(o.fh), opWrite(o.Stateid, 0, string(content)))
	// The first compound begins with a handle, so the server reserves memory for its READs. For
	// the second it does not.
	for _, first := range [][]nfs4test.Op{{putFH(o.fh)}, {op(wire.OpPutRootFH), opLookup("file")}} {
		ops := slices.Clone(first)
		for i := range 4 {
			ops = append(ops, opRead(o.Stateid, uint64(i*4096), 4096))
		}
		r := f.want(wire.NFS4OK, ops...)
		var got []byte
		for i := range 4 {
			var res wire.Read4Res
			r.Ops[len(first)+i].Into(t, &res)
			if res.ResOK.EOF != (i == 3) {
				t.Errorf("READ %d: eof is %v", i, res.ResOK.EOF)
			}
			got = append(got, res.ResOK.Data.Data...)
		}
		if !bytes.Equal(got, content) {
			t.Errorf("%d bytes that are not those of the file", len(got))
		}
	}
	for _, c := range []struct {
		offset uint64
		count  uint32
		n      int
		eof    bool
	}{
		{0, 0, 0, false}, {0, 1 << 30, len(content), true}, {uint64(len(content)), 10, 0, true}, {1 << 40, 10, 0, true},
		{uint64(len(content)) - 5, 5, 5, true}, {uint64(len(content)) - 5, 4, 4, false},
	} {
		r := f.want(wire.NFS4OK, putFH(o.fh), opRead(o.Stateid, c.offset, c.count))
		var res wire.Read4Res
		r.Ops[1].Into(t, &res)
		if len(res.ResOK.Data.Data) != c.n || res.ResOK.EOF != c.eof {
			t.Errorf("%+v: %d bytes, eof %v", c, len(res.ResOK.Data.Data), res.ResOK.EOF)
		}
	}
}

// READs for which no memory was reserved share a small amount of memory. The compound ends with
// the first READ that gets none.
func TestReadsWithoutReservedMemory(t *testing.T) {
	s := openSite(t)
	f := newFiler(t, s, 1)
	o := f.create("file", "me", both, 0)
	f.want(wire.NFS4OK, putFH(o.fh), opWrite(o.Stateid, 0, string(make([]byte, 16<<10))))
	ops := []nfs4test.Op{op(wire.OpPutRootFH), opLookup("file")}
	for range 100 {
		ops = append(ops, opRead(o.Stateid, 0, 16<<10))
	}
	r := f.Compound(ops...)
	got := 0
	for _, o := range r.Ops[2:] {
		if o.Status == wire.NFS4OK {
			var res wire.Read4Res
			o.Into(t, &res)
			got += len(res.ResOK.Data.Data)
		}
	}
	if got != nfs.MaxTransfer+32<<10 || r.Status != wire.NFS4ErrRepTooBig {
		t.Errorf("%d bytes in %d results, then %v", got, len(r.Ops)-2, r.Status)
	}
	// A short READ uses no more memory than it returns.
	ops = append(ops[:2], opRead(o.Stateid, 0, nfs.MaxTransfer))
	for i := range 100 {
		ops = append(ops, opRead(o.Stateid, 16<<10-1, uint32(1000+i)))
	}
	f.want(wire.NFS4OK, ops...)
}

// Two opens conflict if the access of one meets a deny mode of the other. The owners of
// the opens do not matter. Otherwise both are granted.
func TestShareMatrix(t *testing.T) {
	s := openSite(t)
	f, other := newFiler(t, s, 1), newFiler(t, s, 1)
	f.close(f.create("file", "me", both, 0))
	for first := range uint32(12) {
		for second := range uint32(12) {
			a, d := first%3+1, first/3
			access, deny := second%3+1, second/3
			want := wire.NFS4OK
			if a&deny != 0 || d&access != 0 {
				want = wire.NFS4ErrShareDenied
			}
			o := f.open(openArgs("file", "me", a, d))
			for _, by := range []struct {
				*filer
				owner string
			}{{other, "me"}, {f, "somebody else"}, {f, "me"}} {
				r := by.Compound(op(wire.OpPutRootFH), opOpen(openArgs("file", by.owner, access, deny)), opClose(state.CurrentID, 0))
				if r.Status != want {
					t.Fatalf("%d, %d beside %d, %d: %v, not %v", access, deny, a, d, r.Status, want)
				}
				if by.owner == "me" && by.filer == f && want == wire.NFS4OK {
					o.fh = nil // closed with the CLOSE above
				}
			}
			if o.fh != nil {
				f.close(o)
			}
			nothingLeft(t, s)
		}
	}
}
