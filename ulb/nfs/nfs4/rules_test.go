package nfs4_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// An operation that sets the current file handle drops the current stateid, even if the new
// handle names the same file (RFC 8881 §16.2.3.1.2). RESTOREFH restores the stateid that was
// saved with the handle, with the seqid that it had when it was saved.
func TestCurrentStateidBelongsToItsHandle(t *testing.T) {
	s := openSite(t)
	f := newFiler(t, s, 1)
	o := f.create("file", "me", both, 0)
	f.close(o)
	current := state.CurrentID
	opens := opOpen(openArgs("file", "me", both, 0))
	root, save, restore := op(wire.OpPutRootFH), op(wire.OpSaveFH), op(wire.OpRestoreFH)
	for _, c := range []struct {
		name string
		ops  []nfs4test.Op
		want wire.NFSStat4
	}{
		{"behind its OPEN", []nfs4test.Op{root, opens, opRead(current, 0, 1)}, wire.NFS4OK},
		{"behind a PUTFH of the same file", []nfs4test.Op{root, opens, putFH(o.fh), opRead(current, 0, 1)}, wire.NFS4ErrBadStateID},
		{"behind a LOOKUP of the same file", []nfs4test.Op{root, opens, root, lookup("file"), opRead(current, 0, 1)}, wire.NFS4ErrBadStateID},
		{"restored behind another OPEN, to read", []nfs4test.Op{root, opens, save, root, opens, restore, opRead(current, 0, 1)}, wire.NFS4OK},
		// CLOSE and OPEN_DOWNGRADE need the newest seqid (RFC 8881 §8.2.3).
		{"restored behind another OPEN, to downgrade", []nfs4test.Op{root, opens, save, root, opens, restore, opDowngrade(current, both, 0)}, wire.NFS4ErrOldStateID},
		{"restored behind another OPEN, to close", []nfs4test.Op{root, opens, save, root, opens, restore, opClose(current, 0)}, wire.NFS4ErrOldStateID},
	} {
		if r := f.Compound(c.ops...); r.Status != c.want {
			t.Errorf("%s: %v, want %v", c.name, statuses(r), c.want)
		}
	}
}

// From minor version 1 on, CLOSE returns a stateid that cannot be used (RFC 8881
// §18.2.4). In minor version 0 it returns the closed stateid with its seqid advanced by
// one (RFC 7530 §16.2.5).
func TestStateidOfClose(t *testing.T) {
	for minor := range uint32(3) {
		f := newFiler(t, openSite(t), minor)
		args := openArgs("file", "me", both, 0)
		args.Seqid = 1
		o := f.open(creating(args, wire.Unchecked4, fileMode(0o600)))
		id := o.Stateid
		if minor == 0 {
			r := f.want(wire.NFS4OK, putFH(o.fh), nfs4test.Op{Number: wire.OpOpenConfirm, Args: &wire.OpenConfirm4Args{OpenStateid: id, Seqid: 2}})
			var res wire.OpenConfirm4Res
			r.Ops[1].Into(t, &res)
			id = res.ResOK.Stateid
		}
		r := f.want(wire.NFS4OK, putFH(o.fh), opClose(id, 3))
		var res wire.Close4Res
		r.Ops[1].Into(t, &res)
		want := state.InvalidID
		if minor == 0 {
			want = wire.StateID4{Seqid: id.Seqid + 1, Other: id.Other}
		}
		if res.Stateid != want {
			t.Errorf("minor version %d: %v, want %v", minor, res.Stateid, want)
		}
	}
}

// SECINFO_NO_NAME is permitted under any flavor, because a client with a handle of the export
// uses it to find out the export's flavors (RFC 8881 §2.6.3.1.1.5, §18.45).
func TestSecInfoNoNameNeedsNoFlavor(t *testing.T) {
	s := strictSite(t)
	e, _, _ := s.Exports.Resolve("/strict")
	put := putFH(s.Exports.Seal(nil, e, e.FS.Root()))
	for minor := uint32(1); minor <= 2; minor++ {
		p := s.Peer(minor)
		for _, style := range []wire.SecinfoStyle4{wire.SecinfoStyle4CurrentFH, wire.SecinfoStyle4Parent} {
			r := p.Compound(put, nfs4test.Op{Number: wire.OpSecInfoNoName, Args: &style})
			if r.Status != wire.NFS4OK {
				t.Errorf("minor version %d, style %v: %v", minor, style, statuses(r))
			}
		}
		if r := p.Compound(put, getattr(1)); r.Status != wire.NFS4ErrWrongSec {
			t.Errorf("minor version %d, GETATTR: %v", minor, statuses(r))
		}
	}
}

// VERIFY compares the object's whole value, even if that is longer than the client's value (RFC
// 8881 §18.31.3).
func TestVerifyComparesTheWholeValue(t *testing.T) {
	owner := func(name string) wire.FAttr4 {
		w := xdr.NewWriter(make([]byte, 0, 64))
		w.Opaque([]byte(name))
		return wire.FAttr4{Attrmask: wire.Bits(wire.Fattr4Owner), AttrVals: w.Bytes()}
	}
	f := newFiler(t, openSite(t), 1)
	o := f.create("file", "me", both, 0)
	f.want(wire.NFS4OK, putFH(o.fh), nfs4test.Op{Number: wire.OpSetattr, Args: &wire.Setattr4Args{ObjAttributes: owner("1234567")}})
	for _, c := range []struct {
		given       string
		same, other wire.NFSStat4 // the statuses of VERIFY and NVERIFY
	}{
		{"1234567", wire.NFS4OK, wire.NFS4ErrSame},
		{"1", wire.NFS4ErrNotSame, wire.NFS4OK},
		{"12345678901", wire.NFS4ErrNotSame, wire.NFS4OK},
	} {
		f.want(c.same, putFH(o.fh), nfs4test.Op{Number: wire.OpVerify, Args: &wire.Verify4Args{Attributes: owner(c.given)}})
		f.want(c.other, putFH(o.fh), nfs4test.Op{Number: wire.OpNverify, Args: &wire.Nverify4Args{Attributes: owner(c.given)}})
	}
}

// If the saved handle's export does not accept the caller's flavor, an operation that
// accesses the saved object fails (RFC 8881 §2.6.3.1).
func TestSavedHandleNeedsTheFlavorOfItsExport(t *testing.T) {
	s := strictSite(t)
	strict, _, _ := s.Exports.Resolve("/strict")
	p := s.Peer(2)
	ops := []nfs4test.Op{putFH(s.Exports.Seal(nil, strict, strict.FS.Root())), op(wire.OpSaveFH)}
	ops = append(append(ops, walk("open", "file")...), nfs4test.Op{Number: wire.OpCopy, Args: &wire.Copy4Args{}})
	if r := p.Compound(ops...); r.Status != wire.NFS4ErrAccess || len(r.Ops) != len(ops) {
		t.Errorf("%v", statuses(r))
	}
}
