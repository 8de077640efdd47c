package nfs4suite

import (
	"bytes"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// OPEN refuses an object that is not a regular file, by name and by handle (RFC 8881 §18.16.4).
func TestOpenOfOtherTypes(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		all := s.populate()
		for name, want := range map[string]wire.NFSStat4{
			"dir": wire.NFS4ErrIsDir, "link": wire.NFS4ErrSymlink, "fifo": wire.NFS4ErrWrongType, "socket": wire.NFS4ErrWrongType,
		} {
			args := func() *wire.Open4Args { return openArgs(name, "owner", read, 0) }
			s.refused(name, want, args())
			s.refused(name+" UNCHECKED4", want, creating(args(), wire.Unchecked4, attrs().f, 0))
			s.refused(name+" UNCHECKED4 to cut", want, creating(args(), wire.Unchecked4, attrs().size(0).f, 0))
			s.refused(name+" GUARDED4", wire.NFS4ErrExist, creating(args(), wire.Guarded4, attrs().f, 0))
			s.refused(name+" EXCLUSIVE4", wire.NFS4ErrExist, creating(args(), wire.Exclusive4, attrs().f, 5))
			s.refused(name+" EXCLUSIVE4_1", wire.NFS4ErrExist, creating(args(), wire.Exclusive41, attrs().f, 5))
			s.want(name+" CLAIM_FH", want, putFH(all[name]), open(claiming(args(), wire.ClaimFH)))
		}
		for name, want := range map[string]wire.NFSStat4{"file": wire.NFS4ErrNotDir, "fifo": wire.NFS4ErrNotDir, "link": wire.NFS4ErrSymlink} {
			s.want("a name in "+name, want, putFH(all[name]), open(openArgs("x", "owner", read, 0)))
			s.want("a name in "+name+" UNCHECKED4", want, putFH(all[name]), open(creating(openArgs("x", "owner", read, 0), wire.Unchecked4, attrs().f, 0)))
		}
	})
}

func TestOpenNames(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		for name, want := range badNames {
			s.refused(name, want, openArgs(name, "owner", read, 0))
			s.refused(name+" UNCHECKED4", want, creating(openArgs(name, "owner", both, 0), wire.Unchecked4, attrs().f, 0))
		}
		s.refused("what there is not", wire.NFS4ErrNoEnt, openArgs("nothing", "owner", read, 0))
		s.want("without a handle", wire.NFS4ErrNoFileHandle, open(openArgs("nothing", "owner", read, 0)))
		o := s.open(creating(openArgs(strings.Repeat("x", 255), "owner", both, 0), wire.Unchecked4, attrs().f, 0))
		s.close(&o)
	})
}

// badNames are names that every operation refuses.
var badNames = map[string]wire.NFSStat4{
	"": wire.NFS4ErrInvalid, ".": wire.NFS4ErrBadName, "..": wire.NFS4ErrBadName, "a/b": wire.NFS4ErrBadChar, "/": wire.NFS4ErrBadChar,
	"a\x00b": wire.NFS4ErrBadChar, strings.Repeat("x", 256): wire.NFS4ErrNameTooLong, strings.Repeat("x", 5000): wire.NFS4ErrNameTooLong,
}

func TestOpenShareBits(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		s.makeFile("file")
		for _, c := range []struct {
			access, deny uint32
			want         wire.NFSStat4
		}{
			{0, 0, wire.NFS4ErrInvalid}, {4, 0, wire.NFS4ErrInvalid}, {8, 0, wire.NFS4ErrInvalid}, {5, 0, wire.NFS4ErrInvalid},
			{read, 4, wire.NFS4ErrInvalid}, {read, 1 << 31, wire.NFS4ErrInvalid}, {read | 1<<31, 0, wire.NFS4ErrInvalid},
			{wire.Open4ShareAccessWantNoDeleg, 0, wire.NFS4ErrInvalid},
			{read, 0, ok}, {write, 0, ok}, {both, both, ok},
			{read | wire.Open4ShareAccessWantNoDeleg, 0, ok}, {read | wire.Open4ShareAccessWantAnyDeleg, 0, ok},
			{both | wire.Open4ShareAccessWantWriteDeleg, 0, ok}, {read | wire.Open4ShareAccessWantCancel, 0, ok},
			{read | wire.Open4ShareAccessWantReadDeleg | wire.Open4ShareAccessWantSignalDelegWhenResrcAvail, 0, ok},
			{read | wire.Open4ShareAccessWantReadDeleg | wire.Open4ShareAccessWantPushDelegWhenUncontended, 0, ok},
		} {
			r := s.do(putRoot, open(openArgs("file", "owner", c.access, c.deny)), getFH)
			if r.Status != c.want {
				t.Errorf("access %#x, deny %#x: %v, not %v", c.access, c.deny, r.Status, c.want)
			}
			if r.Status != ok {
				continue
			}
			res := s.openRes(&r.Ops[2])
			switch d := &res.Delegation; {
			case c.access&wire.Open4ShareAccessWantDelegMask == 0:
			case c.access&wire.Open4ShareAccessWantDelegMask == wire.Open4ShareAccessWantNoDeleg &&
				(d.DelegationType != wire.OpenDelegateNoneExt || d.Whynone.Why != wire.Wnd4NotWanted):
				t.Errorf("no delegation was wanted: %+v", d)
			}
			s.close(&opened{res, s.handle(&r.Ops[3])})
		}
	})
}

// The server grants a second open of a file only if the share modes of both permit it. The opens
// are by two owners or by one, of one client or of two (RFC 8881 §9.7).
func TestOpenShareMatrix(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		other := newSession(t, site, 2, "other")
		s.makeFile("file")
		for access := uint32(1); access < 4; access++ {
			for deny := uint32(0); deny < 4; deny++ {
				first := s.open(openArgs("file", "owner", access, deny))
				for access2 := uint32(1); access2 < 4; access2++ {
					for deny2 := uint32(0); deny2 < 4; deny2++ {
						want := ok
						if access2&deny != 0 || deny2&access != 0 {
							want = wire.NFS4ErrShareDenied
						}
						r := other.do(putRoot, open(openArgs("file", "owner", access2, deny2)), getFH)
						if r.Status != want {
							t.Errorf("access %d deny %d, then access %d deny %d: %v", access, deny, access2, deny2, r.Status)
						}
						if r.Status == ok {
							other.close(&opened{other.openRes(&r.Ops[2]), first.fh})
						}
					}
				}
				for _, use := range []struct {
					deny uint32
					op   nfs4test.Op
				}{
					{read, readOp(anonymous, 0, 1)}, {write, writeOp(anonymous, 0, "0")}, {write, setattr(anonymous, attrs().size(10))},
				} {
					want := ok
					if deny&use.deny != 0 {
						want = wire.NFS4ErrLocked
					}
					other.want("without an open", want, putFH(first.fh), use.op)
				}
				other.want("READ past the denial", ok, putFH(first.fh), readOp(bypass, 0, 1))
				s.close(&first)
			}
		}
	})
}

// If an owner opens a file again, both opens have one stateid, with the union of both accesses.
func TestOpenAgain(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		fh := s.makeFile("file")
		first := s.open(openArgs("file", "owner", read, 0))
		if first.Stateid.Seqid != 1 {
			t.Errorf("the first seqid is %d", first.Stateid.Seqid)
		}
		s.want("WRITE", wire.NFS4ErrOpenMode, putFH(fh), writeOp(first.Stateid, 0, "x"))
		second := s.open(openArgs("file", "owner", write, 0))
		if second.Stateid != seqid(first.Stateid, 2) {
			t.Errorf("%v after %v", second.Stateid, first.Stateid)
		}
		other := s.open(openArgs("file", "another", read, 0))
		if other.Stateid.Other == first.Stateid.Other {
			t.Error("two owners share a stateid")
		}
		s.want("READ", ok, putFH(fh), readOp(second.Stateid, 0, 1))
		s.want("WRITE", ok, putFH(fh), writeOp(second.Stateid, 0, "0"))
		s.want("READ with the old", wire.NFS4ErrOldStateID, putFH(fh), readOp(first.Stateid, 0, 1))
		s.want("CLOSE with the old", wire.NFS4ErrOldStateID, putFH(fh), closeOp(first.Stateid))
		s.close(&second)
		s.want("READ after CLOSE", wire.NFS4ErrBadStateID, putFH(fh), readOp(second.Stateid, 0, 1))
		s.want("CLOSE again", wire.NFS4ErrBadStateID, putFH(fh), closeOp(second.Stateid))
		s.close(&other)
		third := s.open(openArgs("file", "owner", read, 0))
		if third.Stateid.Other == first.Stateid.Other {
			t.Error("a stateid came back after its end")
		}
	})
}

// OPEN creates files in the modes UNCHECKED, GUARDED, EXCLUSIVE and EXCLUSIVE4_1 (RFC 8881
// §18.16.3).
func TestOpenCreates(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		root := s.find()
		made := func(name string, mode wire.Createmode4, a *values, verifier byte) (opened, uint64, uint64) {
			t.Helper()
			before := s.number(root, wire.Fattr4Change)
			o := s.open(creating(openArgs(name, "owner", both, 0), mode, a.f, verifier))
			after := s.number(root, wire.Fattr4Change)
			if o.Cinfo.After != after || o.Cinfo.Atomic && o.Cinfo.Before != before {
				t.Errorf("%s: change_info is %+v, and change went from %d to %d", name, o.Cinfo, before, after)
			}
			return o, before, after
		}
		o, before, after := made("unchecked", wire.Unchecked4, attrs().size(5).mode(0o640), 0)
		if before == after {
			t.Error("change of the directory stays when a file is made")
		}
		if want := wire.Bits(wire.Fattr4Size, wire.Fattr4Mode); o.Attrset != want {
			t.Errorf("attrset is %v", o.Attrset)
		}
		if n := s.number(o.fh, wire.Fattr4Size); n != 5 {
			t.Errorf("size %d", n)
		}
		if n := s.number(o.fh, wire.Fattr4Mode); n != 0o640 {
			t.Errorf("mode %o", n)
		}
		s.close(&o)
		o, before, after = made("unchecked", wire.Unchecked4, attrs().size(7).mode(0o600), 0)
		if before != after {
			t.Error("change of the directory goes on when nothing is made")
		}
		if n := s.number(o.fh, wire.Fattr4Size); n != 5 || !o.Attrset.IsEmpty() {
			t.Errorf("a size that is not 0 was set in a file that was there: %d, %v", n, o.Attrset)
		}
		s.close(&o)
		o, _, _ = made("unchecked", wire.Unchecked4, attrs().size(0).mode(0o600), 0)
		if n := s.number(o.fh, wire.Fattr4Size); n != 0 || o.Attrset != wire.Bits(wire.Fattr4Size) {
			t.Errorf("size is %d, attrset %v", n, o.Attrset)
		}
		if n := s.number(o.fh, wire.Fattr4Mode); n != 0o640 {
			t.Errorf("mode %o of a file that was there", n)
		}
		s.close(&o)

		o, _, _ = made("guarded", wire.Guarded4, attrs().mode(0o600), 0)
		s.close(&o)
		s.refused("GUARDED4 again", wire.NFS4ErrExist, creating(openArgs("guarded", "owner", both, 0), wire.Guarded4, attrs().f, 0))

		for _, mode := range []wire.Createmode4{wire.Exclusive4, wire.Exclusive41} {
			name := "exclusive" + string(rune('0'+mode))
			o, _, _ = made(name, mode, attrs(), 1)
			again, _, _ := made(name, mode, attrs(), 1)
			if !bytes.Equal(o.fh, again.fh) || again.Stateid != seqid(o.Stateid, 2) {
				t.Errorf("%s: again, %+v after %+v", name, again, o)
			}
			s.refused(name+" with another verifier", wire.NFS4ErrExist, creating(openArgs(name, "owner", both, 0), mode, attrs().f, 2))
			s.must("SETATTR", putFH(o.fh), setattr(again.Stateid, attrs().put(wire.Fattr4TimeAccessSet, words(0)).put(wire.Fattr4TimeModifySet, words(0))))
			s.close(&again)
			s.refused("GUARDED4 of "+name, wire.NFS4ErrExist, creating(openArgs(name, "owner", both, 0), wire.Guarded4, attrs().f, 0))
		}
		o, _, _ = made("with mode", wire.Exclusive41, attrs().mode(0o604), 3)
		if n := s.number(o.fh, wire.Fattr4Mode); n != 0o604 || !o.Attrset.Has(wire.Fattr4Mode) {
			t.Errorf("EXCLUSIVE4_1: mode %o, attrset %v", n, o.Attrset)
		}
		s.close(&o)
	})
}

// EXCLUSIVE4_1 accepts only the attributes in suppattr_exclcreat.
func TestOpenExclusiveAttributes(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		var set wire.Bitmap4
		set.Decode(decoderOf(s.attribute(s.find(), wire.Fattr4SuppattrExclcreat)))
		if !set.Has(wire.Fattr4Mode) || set.Has(wire.Fattr4TimeAccessSet) || set.Has(wire.Fattr4TimeModifySet) {
			t.Errorf("suppattr_exclcreat is %v", set)
		}
		for _, a := range []*values{
			attrs().size(0), attrs().put(wire.Fattr4TimeAccessSet, words(0)), attrs().put(wire.Fattr4TimeModifySet, words(0)),
		} {
			s.refused("an attribute that is not named", wire.NFS4ErrInvalid, creating(openArgs("new", "owner", both, 0), wire.Exclusive41, a.f, 1))
		}
		s.want("LOOKUP", wire.NFS4ErrNoEnt, putRoot, lookup("new"))
	})
}

// OPEN creates no file if it cannot set an attribute.
func TestOpenAttributes(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		for _, mode := range []wire.Createmode4{wire.Unchecked4, wire.Guarded4, wire.Exclusive41} {
			for _, c := range wrongAttributes() {
				s.refused(c.what, c.want, creating(openArgs("new", "owner", both, 0), mode, c.f, 1))
			}
		}
		s.want("LOOKUP", wire.NFS4ErrNoEnt, putRoot, lookup("new"))
		args := encoded(creating(openArgs("new", "owner", both, 0), wire.Unchecked4, attrs().f, 1))
		args[39] = 4 // createmode, after three words, the owner and the opentype
		s.want("a createmode that there is not", wire.NFS4ErrBadXDR, putRoot, op(wire.OpOpen, args))
	})
}

// OPEN accepts the claims that the server supports and refuses the others.
func TestOpenClaims(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		fh := s.makeFile("file")
		args := func(c wire.OpenClaimType4) *wire.Open4Args { return claiming(openArgs("", "owner", both, 0), c) }
		r := s.must("CLAIM_FH", putFH(fh), open(args(wire.ClaimFH)), readOp(current, 0, 1), getFH)
		if got := s.handle(&r[3]); !bytes.Equal(got, fh) {
			t.Errorf("CLAIM_FH leads to %x, not %x", got, fh)
		}
		s.close(&opened{s.openRes(&r[1]), fh})
		s.want("CLAIM_FH without a handle", wire.NFS4ErrNoFileHandle, open(args(wire.ClaimFH)))
		s.want("CLAIM_PREVIOUS outside of grace", wire.NFS4ErrNoGrace, putFH(fh), open(args(wire.ClaimPrevious)))
		s.want("CLAIM_DELEGATE_CUR", wire.NFS4ErrBadStateID, putRoot, open(func() *wire.Open4Args {
			a := args(wire.ClaimDelegateCur)
			a.Claim.DelegateCurInfo.File = wire.UTF8String("file")
			return a
		}()))
		s.want("CLAIM_DELEG_CUR_FH", wire.NFS4ErrBadStateID, putFH(fh), open(args(wire.ClaimDelegCurFH)))
		for _, c := range []wire.OpenClaimType4{wire.ClaimDelegatePrev, wire.ClaimDelegPrevFH} {
			a := args(c)
			a.Claim.FileDelegatePrev = wire.UTF8String("file")
			r := s.do(putFH(fh), open(a))
			if r.Status == ok {
				t.Errorf("%v was granted", c)
			}
		}
		bad := encoded(args(wire.ClaimFH))
		bad[len(bad)-1] = 7
		s.want("a claim that there is not", wire.NFS4ErrBadXDR, putFH(fh), op(wire.OpOpen, bad))
		s.want("a part of the arguments", wire.NFS4ErrBadXDR, putFH(fh), op(wire.OpOpen, bad[:len(bad)-8]))
	})
}

// The change_info of an OPEN that creates nothing has the present change attribute of the
// directory.
func TestOpenChangeInfo(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		s.makeFile("file")
		s.must("CREATE", putRoot, create(wire.NF4Dir, "later"))
		change := s.number(s.find(), wire.Fattr4Change)
		o := s.open(openArgs("file", "owner", read, 0))
		if o.Cinfo.After != change || o.Cinfo.Before != change {
			t.Errorf("change_info is %+v, and the directory's change %d", o.Cinfo, change)
		}
	})
}

// From minor version 1 on, the server ignores the client ID in an owner (RFC 8881 §18.16.3).
func TestOpenIgnoresTheOwnersClientID(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		s.makeFile("file")
		args := openArgs("file", "owner", read, 0)
		args.Owner.Clientid, args.Seqid = 12345, 99
		first := s.open(args)
		args.Owner.Clientid, args.Seqid = 0, 0
		second := s.open(args)
		if second.Stateid.Other != first.Stateid.Other {
			t.Error("the client ID makes another owner")
		}
	})
}

// The current stateid is the latest one of the compound. It is saved and restored with the file
// handle (RFC 8881 §16.2.3.1.2).
func TestCurrentStateID(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		fh := s.makeFile("file")
		o := open(openArgs("file", "owner", both, 0))
		s.want("READ and WRITE and CLOSE", ok, putRoot, o, readOp(current, 0, 1), writeOp(current, 0, "0"), setattr(current, attrs().size(10)), closeOp(current))
		s.want("after CLOSE", wire.NFS4ErrBadStateID, putRoot, o, closeOp(current), readOp(current, 0, 1))
		s.want("another handle", wire.NFS4ErrBadStateID, putRoot, o, putFH(fh), readOp(current, 0, 1))
		s.want("LOOKUP", wire.NFS4ErrBadStateID, putRoot, o, putRoot, lookup("file"), readOp(current, 0, 1))
		s.want("none", wire.NFS4ErrBadStateID, putFH(fh), readOp(current, 0, 1))
		s.want("saved and restored", ok, putRoot, o, saveFH, putRoot, op(wire.OpRestoreFH), readOp(current, 0, 1))
		s.want("saved without", wire.NFS4ErrBadStateID, putFH(fh), saveFH, putRoot, o, op(wire.OpRestoreFH), readOp(current, 0, 1))
		s.want("LOCK and LOCKU", ok, putRoot, o, lockNew(current, "locker", wire.WriteLt, 0, 1), writeOp(current, 0, "0"), unlock(current, 0, 1))
		s.want("OPEN_DOWNGRADE", ok, putRoot, o, downgrade(current, both, 0), readOp(current, 0, 1))
		s.want("a lock's for CLOSE", wire.NFS4ErrBadStateID, putRoot, o, lockNew(current, "locker", wire.WriteLt, 0, 1), closeOp(current))
	})
}

// Owner names have 0 to 1024 bytes of any values.
func TestOwners(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		s.makeFile("file")
		seen := map[wire.StateID4]bool{}
		for _, owner := range []string{"", "\x00", "\x00\x00", "\xff\xfe", strings.Repeat("x", 1023), strings.Repeat("x", 1024)} {
			o := s.open(openArgs("file", owner, both, 0))
			id := s.lock(&o, owner, wire.ReadLt, 0, 1)
			if seen[o.Stateid] || seen[id] {
				t.Errorf("owner %q shares a stateid", owner)
			}
			seen[o.Stateid], seen[id] = true, true
			s.want("LOCKT by the owner", ok, putFH(o.fh), lockTest(owner, wire.ReadLt, 0, 1))
		}
		// The arguments have an owner length of 1028 and an owner of 1028 bytes.
		long := append(words(0, both, 0, 0, 0, 1028), make([]byte, 1028)...)
		s.want("an owner beyond the longest", wire.NFS4ErrBadXDR, putRoot, op(wire.OpOpen, append(long, words(0, 0, 4, 0x66696c65)...)))
		s.want("a lock-owner beyond the longest", wire.NFS4ErrBadXDR, putRoot, lookup("file"),
			op(wire.OpLockt, append(words(uint32(wire.ReadLt), 0, 0, 0, 1, 0, 0, 1028), make([]byte, 1028)...)))
	})
}

func TestOpenDowngrade(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		other := newSession(t, site, 1, "other")
		s.makeFile("file")
		dir := s.find()
		o := s.open(openArgs("file", "owner", both, 0))
		second := s.open(openArgs("file", "owner", read, 0))
		s.want("the old stateid", wire.NFS4ErrOldStateID, putFH(o.fh), downgrade(o.Stateid, read, 0))
		s.want("a later stateid", wire.NFS4ErrBadStateID, putFH(o.fh), downgrade(seqid(o.Stateid, 3), read, 0))
		s.want("a special stateid", wire.NFS4ErrBadStateID, putFH(o.fh), downgrade(anonymous, read, 0))
		s.want("another object", wire.NFS4ErrBadStateID, putFH(dir), downgrade(second.Stateid, read, 0))
		other.want("another client", wire.NFS4ErrBadStateID, putFH(o.fh), downgrade(second.Stateid, read, 0))
		for _, c := range []struct {
			access, deny uint32
			want         wire.NFSStat4
		}{
			{0, 0, wire.NFS4ErrInvalid}, {4, 0, wire.NFS4ErrInvalid}, {read, 4, wire.NFS4ErrInvalid},
			{write, 0, wire.NFS4ErrInvalid}, // no combination of the opens has this access
			{both, read, wire.NFS4ErrInvalid}, {read, write, wire.NFS4ErrInvalid},
			{both, 0, ok}, {read, 0, ok}, {both, 0, wire.NFS4ErrInvalid}, {read, 0, ok},
		} {
			r := s.do(putFH(o.fh), downgrade(seqid(o.Stateid, 0), c.access, c.deny))
			if r.Status != c.want {
				t.Errorf("to access %d and deny %d: %v, not %v", c.access, c.deny, r.Status, c.want)
			}
			if r.Status != ok {
				continue
			}
			var res wire.OpenDowngrade4Res
			r.Ops[2].Into(t, &res)
			if res.ResOK.Stateid != seqid(second.Stateid, second.Stateid.Seqid+1) {
				t.Errorf("%v after %v", res.ResOK.Stateid, second.Stateid)
			}
			second.Stateid = res.ResOK.Stateid
		}
		s.want("WRITE", wire.NFS4ErrOpenMode, putFH(o.fh), writeOp(second.Stateid, 0, "x"))
		s.want("READ", ok, putFH(o.fh), readOp(second.Stateid, 0, 1))
		denying := other.open(openArgs("file", "owner", read, write))
		s.refused("OPEN beside what is denied now", wire.NFS4ErrShareDenied, openArgs("file", "owner", write, 0))
		other.close(&denying)
	})
}

func TestClose(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		other := newSession(t, site, 1, "other")
		s.makeFile("file")
		dir := s.find()
		o := s.open(openArgs("file", "owner", both, 0))
		for what, id := range map[string]wire.StateID4{
			"anonymous": anonymous, "bypass": bypass, "invalid": invalid, "a later seqid": seqid(o.Stateid, 2),
			"none that ever was": {Seqid: 1, Other: [12]byte{1, 2, 3}}, "nearly": func() wire.StateID4 {
				id := o.Stateid
				id.Other[11]++
				return id
			}(),
		} {
			s.want("CLOSE with "+what, wire.NFS4ErrBadStateID, putFH(o.fh), closeOp(id))
		}
		s.want("without a handle", wire.NFS4ErrNoFileHandle, closeOp(o.Stateid))
		s.want("another object", wire.NFS4ErrBadStateID, putFH(dir), closeOp(o.Stateid))
		other.want("another client", wire.NFS4ErrBadStateID, putFH(o.fh), closeOp(o.Stateid))
		r := s.must("with seqid 0", putFH(o.fh), closeOp(seqid(o.Stateid, 0)))
		var res wire.Close4Res
		r[1].Into(t, &res)
		if res.Stateid != invalid {
			t.Errorf("CLOSE answered the stateid %v", res.Stateid)
		}
		o = s.open(openArgs("file", "owner", both, 0))
		locked := s.must("LOCK", putFH(o.fh), lockNew(o.Stateid, "locker", wire.WriteLt, 0, 1))
		s.want("with the lock's stateid", wire.NFS4ErrBadStateID, putFH(o.fh), closeOp(lockID(t, &locked[1])))
		// CLOSE releases the locks, as the standard permits.
		s.must("with a lock", putFH(o.fh), closeOp(o.Stateid))
		s.want("the lock, then", wire.NFS4ErrBadStateID, putFH(o.fh), readOp(lockID(t, &locked[1]), 0, 1))
	})
}
