package nfs40_test

import (
	"testing"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

func TestOpenOfEachKind(t *testing.T) {
	want := map[string]status{"file": ok, "dir": wire.NFS4ErrIsDir}
	for _, kind := range kinds {
		w, there := want[kind]
		if !there {
			w = wire.NFS4ErrSymlink // RFC 7530 §16.16.6 wants this status for special files too
		}
		t.Run(kind, func(t *testing.T) {
			o := newClient(t).owner("o")
			o.run(t, w, putRootFH, o.open(kind, readMode, denyNone))
			if kind != "dir" {
				o.oneOf(t, []status{wire.NFS4ErrNotDir, wire.NFS4ErrSymlink}, join(at(kind), o.open("x", readMode, denyNone))...)
				o.oneOf(t, []status{wire.NFS4ErrNotDir, wire.NFS4ErrSymlink}, join(at(kind), o.openHow("x", readMode, denyNone, creating(wire.Unchecked4, mode(0o644))))...)
			}
		})
	}
}

func TestOpenOfBadNames(t *testing.T) {
	for _, c := range badNames {
		t.Run(c.label, func(t *testing.T) {
			o := newClient(t).owner("o")
			o.run(t, c.want, putRootFH, o.open(c.name, readMode, denyNone))
			o.run(t, c.want, putRootFH, o.openHow(c.name, bothMode, denyNone, creating(wire.Unchecked4, mode(0o644))))
			o.run(t, c.want, putRootFH, o.openHow(c.name, bothMode, denyNone, exclusive(1)))
		})
	}
}

func TestOpenOfMissingFileFails(t *testing.T) {
	o := newClient(t).owner("o")
	o.run(t, wire.NFS4ErrNoEnt, putRootFH, o.open("missing", readMode, denyNone))
}

func TestShareModesThatAreNone(t *testing.T) {
	o := newClient(t).owner("o")
	for _, m := range [][2]uint32{{0, 0}, {4, 0}, {1, 4}, {0xffffffff, 0}, {1, 0xffffffff}, {1 | 0x100, 0}} {
		o.run(t, wire.NFS4ErrInvalid, putRootFH, o.open("file", m[0], m[1]))
	}
}

// After an OPEN the current file handle is that of the opened file.
func TestOpenLeadsToTheFile(t *testing.T) {
	o := newClient(t).owner("o")
	r := o.run(t, ok, putRootFH, o.open("file", readMode, denyNone), getFH)
	var res wire.GetFH4Res
	last(t, r, &res)
	if string(res.ResOK.Object) != string(o.handle(t, "file")) {
		t.Error("another file")
	}
	if d := opened(t, r, 1).Delegation.DelegationType; d != wire.OpenDelegateNone {
		t.Errorf("a delegation to an owner who is not confirmed: %v", d)
	}
}

func TestCreateModes(t *testing.T) {
	made := func(o *owner, want status, name string, how wire.Openflag4) *wire.Open4ResOK {
		t.Helper()
		r := o.run(t, want, putRootFH, o.openHow(name, bothMode, denyNone, how))
		if want != ok {
			return nil
		}
		res := opened(t, r, 1)
		return &res
	}
	for label, how := range map[string]func() wire.Openflag4{
		"unchecked": func() wire.Openflag4 { return creating(wire.Unchecked4, mode(0o640)) },
		"guarded":   func() wire.Openflag4 { return creating(wire.Guarded4, mode(0o640)) },
		"exclusive": func() wire.Openflag4 { return exclusive(7) },
	} {
		t.Run(label, func(t *testing.T) {
			c := newClient(t)
			res := made(c.owner("a"), ok, "new", how())
			if res.Cinfo.Before == res.Cinfo.After {
				t.Error("the directory did not change")
			}
			if label != "exclusive" && !res.Attrset.Has(wire.Fattr4Mode) {
				t.Error("the mode was not set")
			}
			again := ok
			if label == "guarded" {
				again = wire.NFS4ErrExist
			}
			if res := made(c.owner("b"), again, "new", how()); res != nil && res.Attrset.Has(wire.Fattr4Mode) {
				t.Error("the mode of a file that was there was set")
			}
			made(c.owner("c"), wire.NFS4ErrExist, "new", exclusive(8))
			made(c.owner("d"), wire.NFS4ErrExist, "new", creating(wire.Guarded4, mode(0o640)))
			made(c.owner("e"), wire.NFS4ErrExist, "file", exclusive(7))
			// If the object is no regular file, the status tells its type.
			made(c.owner("f"), wire.NFS4ErrIsDir, "dir", creating(wire.Unchecked4, mode(0o640)))
			made(c.owner("g"), wire.NFS4ErrSymlink, "link", creating(wire.Unchecked4, mode(0o640)))
			made(c.owner("h"), wire.NFS4ErrSymlink, "fifo", creating(wire.Unchecked4, mode(0o640)))
			made(c.owner("i"), wire.NFS4ErrExist, "dir", creating(wire.Guarded4, mode(0o640)))
		})
	}
}

// If an OPEN with UNCHECKED4 finds a file, it sets only the file's size, and only to zero.
func TestUncheckedCreateCuts(t *testing.T) {
	for _, c := range []struct {
		attr wire.FAttr4
		want uint64
	}{{size(0), 0}, {size(3), uint64(len(content))}, {mode(0o600), uint64(len(content))}} {
		o := newClient(t).owner("o")
		r := o.run(t, ok, putRootFH, o.openHow("file", readMode, denyNone, creating(wire.Unchecked4, c.attr)), getattr(wire.Fattr4Size))
		if _, d := valuesOf(t, r); d.Uint64() != c.want {
			t.Errorf("%v left another size", c.attr)
		}
	}
}

func TestCreateWithAttributesThatCannotBe(t *testing.T) {
	for _, c := range []struct {
		attr wire.FAttr4
		want status
	}{
		{attrs(u64(1), wire.Fattr4FileID), wire.NFS4ErrInvalid},
		{attrs(u32(1), wire.Fattr4Hidden), wire.NFS4ErrAttrNotSupp},
		{attrs(u32(1), 95), wire.NFS4ErrAttrNotSupp},
		{attrs(nil, wire.Fattr4Mode), wire.NFS4ErrBadXDR},
	} {
		o := newClient(t).owner("o")
		o.run(t, c.want, putRootFH, o.openHow("new", bothMode, denyNone, creating(wire.Guarded4, c.attr)))
		o.run(t, wire.NFS4ErrNoEnt, at("new")...)
	}
}

// OPEN rejects claim types and create modes of later minor versions.
func TestClaimsThatAreNone(t *testing.T) {
	for claim := wire.OpenClaimType4(4); claim < 7; claim++ {
		o := newClient(t).owner("o")
		o.run(t, wire.NFS4ErrBadXDR, putRootFH, o.claim(wire.OpenClaim4{Claim: claim}, readMode, denyNone, wire.Openflag4{}))
	}
	o := newClient(t).owner("o")
	o.run(t, wire.NFS4ErrBadXDR, putRootFH, o.openHow("new", bothMode, denyNone, wire.Openflag4{
		Opentype: wire.Open4Create, How: wire.Createhow4{Mode: wire.Exclusive41},
	}))
}

func TestClaimsOfDelegations(t *testing.T) {
	o := newClient(t).owner("o")
	file := wire.UTF8String("file")
	o.run(t, wire.NFS4ErrNotSupp, putRootFH, o.claim(wire.OpenClaim4{Claim: wire.ClaimDelegatePrev, FileDelegatePrev: file}, readMode, denyNone, wire.Openflag4{}))
	o.run(t, wire.NFS4ErrBadStateID, putRootFH, o.claim(wire.OpenClaim4{
		Claim: wire.ClaimDelegateCur, DelegateCurInfo: wire.OpenClaimDelegateCur4{File: file},
	}, readMode, denyNone, wire.Openflag4{}))
}

// After the grace period a client cannot reclaim an open.
func TestClaimWithoutGrace(t *testing.T) {
	o := newClient(t).owner("o")
	o.run(t, wire.NFS4ErrNoGrace, join(at("file"), o.claim(wire.OpenClaim4{Claim: wire.ClaimPrevious}, readMode, denyNone, wire.Openflag4{}))...)
}

// Two opens conflict if one of them denies the access of the other. This holds for two owners of
// one client, for owners of two clients, and for one owner (RFC 7530 §9.9).
func TestShareModes(t *testing.T) {
	modes := []uint32{readMode, writeMode, bothMode}
	denials := []uint32{denyNone, denyRead, denyWrite, denyBoth}
	c := newClient(t)
	first := c.owner("first")
	others := []*owner{c.owner("second"), c.other(t, "other").owner("second")}
	for _, access := range modes {
		for _, deny := range denials {
			for _, wants := range modes {
				for _, denies := range denials {
					id := first.opens(t, "file", access, deny)
					allowed := wants&deny == 0 && denies&access == 0
					for _, o := range others {
						if !allowed {
							o.run(t, wire.NFS4ErrShareDenied, putRootFH, o.open("file", wants, denies))
							continue
						}
						o.run(t, ok, join(at("file"), o.close(o.opens(t, "file", wants, denies)))...)
					}
					if !allowed {
						first.run(t, wire.NFS4ErrShareDenied, putRootFH, first.open("file", wants, denies))
					} else {
						id = first.opens(t, "file", wants, denies)
					}
					first.run(t, ok, join(at("file"), first.close(id))...)
				}
			}
		}
	}
}

// A second OPEN of a file by the same owner adds its modes to the first.
func TestOpenUpgrade(t *testing.T) {
	o := newClient(t).owner("o")
	id := o.opens(t, "file", readMode, denyNone)
	o.run(t, wire.NFS4ErrOpenMode, join(at("file"), write(id, 0, "x"))...)
	next := o.opens(t, "file", writeMode, denyNone)
	if next.Other != id.Other || next.Seqid != id.Seqid+1 {
		t.Fatalf("%v after %v", next, id)
	}
	o.run(t, ok, join(at("file"), write(next, 0, "x"), read(next, 0, 1))...)
	o.run(t, ok, join(at("file"), o.close(next))...)
	o.run(t, wire.NFS4ErrBadStateID, join(at("file"), read(next, 0, 1))...)
}

func TestOpenDowngrade(t *testing.T) {
	c := newClient(t)
	o := c.owner("o")
	o.opens(t, "file", readMode, denyNone)
	id := o.opens(t, "file", bothMode, denyWrite)
	for _, m := range [][2]uint32{{0, 0}, {4, 0}, {1, 4}, {writeMode, denyNone}, {readMode, denyRead}, {readMode, denyWrite}, {bothMode, denyBoth}, {bothMode, denyNone}} {
		c.run(t, wire.NFS4ErrInvalid, join(at("file"), o.downgrade(id, m[0], m[1]))...)
	}
	// The union of all opens is a valid downgrade too.
	id = stateID(t, c.run(t, ok, join(at("file"), o.downgrade(id, bothMode, denyWrite))...))
	down := stateID(t, c.run(t, ok, join(at("file"), o.downgrade(id, readMode, denyNone))...))
	if down.Other != id.Other || down.Seqid != id.Seqid+1 {
		t.Errorf("%v after %v", down, id)
	}
	c.run(t, wire.NFS4ErrOpenMode, join(at("file"), write(down, 0, "x"))...)
	c.run(t, ok, join(at("file"), read(down, 0, 1))...)
	c.run(t, wire.NFS4ErrOldStateID, join(at("file"), o.close(id))...)
	// The open denies no access any more.
	c.other(t, "other").owner("o").opens(t, "file", bothMode, denyNone)
	c.run(t, ok, join(at("file"), o.close(down))...)
}

// A deny mode applies to special stateids as well (RFC 7530 §9.1.4.3).
func TestDenialOfSpecialStateIDs(t *testing.T) {
	o := newClient(t).owner("o")
	id := o.opens(t, "file", bothMode, denyBoth)
	o.run(t, wire.NFS4ErrLocked, join(at("file"), read(anonymous, 0, 1))...)
	o.run(t, wire.NFS4ErrLocked, join(at("file"), write(anonymous, 0, "x"))...)
	o.run(t, wire.NFS4ErrLocked, join(at("file"), write(bypass, 0, "x"))...)
	o.run(t, wire.NFS4ErrLocked, join(at("file"), setattr(anonymous, size(0)))...)
	o.run(t, ok, join(at("file"), read(bypass, 0, 1))...)
	o.run(t, ok, join(at("file"), write(id, 0, "x"), read(id, 0, 1), setattr(id, size(5)))...)
	o.run(t, ok, join(at("file"), o.close(id))...)
	o.run(t, ok, join(at("file"), write(anonymous, 0, "x"), read(anonymous, 0, 1))...)
}

// A stateid is valid for one file only.
func TestStateIDOfAnotherFile(t *testing.T) {
	c := newClient(t)
	o := c.owner("o")
	id := o.opens(t, "file", bothMode, denyNone)
	for name, x := range map[string]func() op{
		"READ":           func() op { return read(id, 0, 1) },
		"WRITE":          func() op { return write(id, 0, "x") },
		"SETATTR":        func() op { return setattr(id, size(0)) },
		"CLOSE":          func() op { return o.close(id) },
		"OPEN_DOWNGRADE": func() op { return o.downgrade(id, readMode, denyNone) },
		"LOCK":           func() op { return c.locker("l").first(o, id, wire.ReadLt, 0, 1) },
	} {
		seqid := o.seqid
		c.run(t, wire.NFS4ErrBadStateID, join(at("dir", "inner"), x())...)
		o.seqid = seqid // NFS4ERR_BAD_STATEID does not use up the seqid
		_ = name
	}
	c.run(t, ok, join(at("file"), o.close(id))...)
}

// In minor version 0 the server checks the seqid of a stateid. Zero has no special meaning (RFC
// 7530 §9.1.4.4).
func TestSeqidsOfStateIDs(t *testing.T) {
	c := newClient(t)
	o := c.owner("o")
	o.opens(t, "file", bothMode, denyNone)
	id := o.opens(t, "file", bothMode, denyNone)
	old, zero, future, other := id, id, id, id
	old.Seqid--
	zero.Seqid = 0
	future.Seqid++
	other.Other[11]++
	for _, x := range []struct {
		id   wire.StateID4
		want []status
	}{
		{old, []status{wire.NFS4ErrOldStateID}}, {zero, []status{wire.NFS4ErrOldStateID, wire.NFS4ErrBadStateID}},
		{future, []status{wire.NFS4ErrBadStateID}}, {other, []status{wire.NFS4ErrBadStateID}},
	} {
		c.oneOf(t, x.want, join(at("file"), read(x.id, 0, 1))...)
		c.oneOf(t, x.want, join(at("file"), write(x.id, 0, "x"))...)
		c.oneOf(t, x.want, join(at("file"), setattr(x.id, size(1)))...)
		c.oneOf(t, x.want, join(at("file"), o.close(x.id))...)
		if x.want[0] != wire.NFS4ErrOldStateID {
			o.seqid--
		}
	}
	c.run(t, ok, join(at("file"), o.close(id))...)
}

// A stateid of an earlier run of the server gets NFS4ERR_STALE_STATEID (RFC 7530 §9.1.1).
func TestStaleStateID(t *testing.T) {
	c := newClient(t)
	o := c.owner("o")
	stale := o.opens(t, "file", bothMode, denyNone)
	stale.Other[0]++
	c.run(t, wire.NFS4ErrStaleStateID, join(at("file"), read(stale, 0, 1))...)
	c.run(t, wire.NFS4ErrStaleStateID, join(at("file"), write(stale, 0, "x"))...)
	c.run(t, wire.NFS4ErrStaleStateID, join(at("file"), setattr(stale, size(1)))...)
	c.run(t, wire.NFS4ErrStaleStateID, join(at("file"), o.close(stale))...)
	c.run(t, wire.NFS4ErrStaleStateID, join(at("file"), o.downgrade(stale, readMode, denyNone))...)
	c.run(t, wire.NFS4ErrStaleStateID, join(at("file"), o.confirm(stale))...)
	c.run(t, wire.NFS4ErrStaleStateID, join(at("file"), c.locker("l").first(o, stale, wire.ReadLt, 0, 1))...)
	c.run(t, wire.NFS4ErrStaleStateID, join(at("file"), c.locker("l").unlock(stale, 0, 1))...)
}

// A removed file still exists as long as it is open, and its handle stays valid.
func TestOpenFileIsRemoved(t *testing.T) {
	o := newClient(t).owner("o")
	id := o.opens(t, "file", bothMode, denyNone)
	h := o.handle(t, "file")
	o.run(t, ok, putRootFH, remove("file"))
	o.run(t, ok, putFH(h), read(id, 0, 1), write(id, 0, "x"))
	o.run(t, ok, putFH(h), o.close(id))
}

// A client cannot remove a file that another machine has open with deny-write (RFC 7530 §16.26.5).
func TestRemovalThatIsDenied(t *testing.T) {
	for _, deny := range []uint32{denyWrite, denyBoth} {
		o := newClient(t).owner("o")
		other := &peer{o.Site.Other(0)}
		id := o.opens(t, "file", readMode, deny)
		other.run(t, wire.NFS4ErrFileOpen, putRootFH, remove("file"))
		other.run(t, wire.NFS4ErrFileOpen, putRootFH, saveFH, rename("link", "file"))
		o.run(t, ok, join(at("file"), o.close(id))...)
		other.run(t, ok, putRootFH, remove("file"))

		o = newClient(t).owner("o")
		id = o.opens(t, "file", readMode, deny)
		h := o.handle(t, "file")
		o.run(t, ok, putRootFH, remove("file"))
		o.run(t, ok, putFH(h), read(id, 0, 1), o.close(id))
	}
}
