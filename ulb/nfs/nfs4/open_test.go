package nfs4_test

import (
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

func TestOpenWriteReadClose(t *testing.T) {
	eachOpenSite(t, func(t *testing.T, s *nfs4test.Site) {
		f := newFiler(t, s, 1)
		o := f.create("file", "me", both, 0)
		f.want(wire.NFS4OK, putFH(o.fh), opWrite(o.Stateid, 0, "hello"), nfs4test.Op{Number: wire.OpCommit, Args: &wire.Commit4Args{}})
		if got := f.content(o, 100); got != "hello" {
			t.Errorf("%q", got)
		}
		again := f.open(openArgs("file", "me", readable, 0))
		if again.Stateid.Other != o.Stateid.Other || again.Stateid.Seqid != 2 {
			t.Errorf("opened once more: %v after %v", again.Stateid, o.Stateid)
		}
		f.close(again)
		nothingLeft(t, s)
		f.want(wire.NFS4ErrBadStateID, putFH(o.fh), opRead(o.Stateid, 0, 1))
	})
}

// OPEN truncates a file only after it has checked that no other open conflicts.
func TestOpenCutsLast(t *testing.T) {
	eachOpenSite(t, func(t *testing.T, s *nfs4test.Site) {
		f, other := newFiler(t, s, 1), newFiler(t, s, 1)
		o := f.create("file", "me", both, wire.Open4ShareDenyWrite)
		f.want(wire.NFS4OK, putFH(o.fh), opWrite(o.Stateid, 0, "hello"))
		cut := func(access uint32) *wire.Open4Args {
			return creating(openArgs("file", "other", access, 0), wire.Unchecked4, fileSize(0))
		}
		for _, access := range []uint32{readable, writable, both} {
			// A truncating OPEN counts as writing, whatever its access.
			other.refused(wire.NFS4ErrShareDenied, cut(access))
			if got := f.content(o, 100); got != "hello" {
				t.Fatalf("after an OPEN that was refused: %q", got)
			}
		}
		f.close(o)
		nothingLeft(t, s)
		o = other.open(cut(readable))
		if got := other.content(o, 100); got != "" {
			t.Errorf("after an OPEN that cuts: %q", got)
		}
		if o.Attrset != wire.Bits(wire.Fattr4Size) {
			t.Errorf("it says that it set %v", o.Attrset)
		}
		other.close(o)
		nothingLeft(t, s)
	})
}

// If an OPEN cannot truncate the file, earlier opens stay as they were.
func TestOpenThatCannotCut(t *testing.T) {
	fs := memfs.New(memfs.Options{RootMode: 0o777})
	s := openSiteOver(t, fs)
	f := newFiler(t, s, 1)
	o := f.create("file", "me", readable, 0)
	for range 2 {
		fs.Fail(memfs.SetAttr, syscall.EDQUOT)
		f.refused(wire.NFS4ErrDQuot, creating(openArgs("file", "me", both, 0), wire.Unchecked4, fileSize(0)))
		f.want(wire.NFS4OK, putFH(o.fh), opRead(o.Stateid, 0, 1))
		f.want(wire.NFS4ErrOpenMode, putFH(o.fh), opWrite(o.Stateid, 0, "x"))
		fs.Fail(memfs.SetAttr, syscall.EDQUOT)
		f.refused(wire.NFS4ErrDQuot, creating(openArgs("file", "another", both, 0), wire.Unchecked4, fileSize(0)))
	}
	f.close(o)
	nothingLeft(t, s)
}

// A file lives as long as a client has it open, even when another one removes its names.
func TestUnlinkedFileLivesWhileOpen(t *testing.T) {
	t.Run("in memory", func(t *testing.T) { unlinkedFileLives(t, openSite(t)) })
	t.Run("in a directory", func(t *testing.T) { unlinkedFileLives(t, openSiteOver(t, directory(t))) })
}

func unlinkedFileLives(t *testing.T, s *nfs4test.Site) {
	f, other := newFiler(t, s, 1), newFiler(t, s, 1)
	o := f.create("file", "me", both, 0)
	also := other.open(openArgs("file", "other", readable, 0))
	other.want(wire.NFS4OK, op(wire.OpPutRootFH), nfs4test.Op{Number: wire.OpRemove, Args: &wire.Remove4Args{Target: []byte("file")}})
	f.want(wire.NFS4OK, putFH(o.fh), opWrite(o.Stateid, 0, "still"), nfs4test.Op{Number: wire.OpCommit, Args: &wire.Commit4Args{}})
	f.close(o)
	if got := other.content(also, 100); got != "still" {
		t.Errorf("%q", got)
	}
	other.close(also)
	other.want(wire.NFS4ErrStale, putFH(o.fh), opRead(state.Anonymous, 0, 1))
	nothingLeft(t, s)
}

// The permission to use a file is checked when it is opened.
func TestModeThatChangesAfterOpen(t *testing.T) {
	s := openSite(t)
	f, owner := newFiler(t, s, 1), newFiler(t, s, 1)
	f.UID, owner.UID = 1000, 1001
	o := owner.open(creating(openArgs("file", "owner", both, 0), wire.Guarded4, fileMode(0o666)))
	mine := f.open(openArgs("file", "me", both, 0))
	owner.want(wire.NFS4OK, putFH(o.fh), nfs4test.Op{Number: wire.OpSetattr, Args: &wire.Setattr4Args{ObjAttributes: fileMode(0o600)}})
	f.want(wire.NFS4OK, putFH(o.fh), opWrite(mine.Stateid, 0, "x"), opRead(mine.Stateid, 0, 1))
	f.want(wire.NFS4ErrAccess, putFH(o.fh), opRead(state.Anonymous, 0, 1))
	f.refused(wire.NFS4ErrAccess, openArgs("file", "another", readable, 0))
	f.refused(wire.NFS4ErrAccess, openArgs("file", "me", readable, 0))
	f.close(mine)
	owner.close(o)
	nothingLeft(t, s)
}

// A caller that creates a file opens it with the requested access, whatever the file's mode is.
func TestCreateOfAReadOnlyFile(t *testing.T) {
	eachOpenSite(t, func(t *testing.T, s *nfs4test.Site) {
		f := newFiler(t, s, 1)
		f.UID = 1000
		o := f.open(creating(openArgs("file", "me", both, 0), wire.Guarded4, fileMode(0)))
		f.close(o)
		f.refused(wire.NFS4ErrExist, creating(openArgs("file", "me", both, 0), wire.Guarded4, fileMode(0)))
		f.refused(wire.NFS4ErrAccess, openArgs("file", "me", writable, 0))
		nothingLeft(t, s)
	})
}

// A repeated exclusive creation opens the file that the first one created.
func TestExclusiveCreate(t *testing.T) {
	eachOpenSite(t, func(t *testing.T, s *nfs4test.Site) {
		f := newFiler(t, s, 1)
		args := func(verifier byte, mode wire.Createmode4) *wire.Open4Args {
			a := creating(openArgs("file", "me", both, 0), mode, fileMode(0o640))
			a.Openhow.How.Createverf[0], a.Openhow.How.Createboth.Verf[0] = verifier, verifier
			return a
		}
		o := f.open(args(1, wire.Exclusive41))
		again := f.open(args(1, wire.Exclusive41))
		if again.Stateid.Other != o.Stateid.Other || again.Stateid.Seqid != 2 {
			t.Errorf("%v after %v", again.Stateid, o.Stateid)
		}
		if want := wire.Bits(wire.Fattr4Mode, wire.Fattr4TimeAccess, wire.Fattr4TimeModify); again.Attrset != want {
			t.Errorf("it says that it set %v", again.Attrset)
		}
		f.refused(wire.NFS4ErrExist, args(2, wire.Exclusive41))
		f.refused(wire.NFS4ErrExist, args(2, wire.Exclusive4))
		f.close(again)
		size := args(3, wire.Exclusive41)
		size.Openhow.How.Createboth.Attrs = fileSize(0)
		f.refused(wire.NFS4ErrInvalid, size)
		nothingLeft(t, s)
	})
}

// A new file has the size that it is created with.
func TestCreateWithASize(t *testing.T) {
	eachOpenSite(t, func(t *testing.T, s *nfs4test.Site) {
		f := newFiler(t, s, 1)
		o := f.open(creating(openArgs("file", "me", readable, 0), wire.Guarded4, fileSize(5)))
		if got := f.content(o, 100); got != string(make([]byte, 5)) {
			t.Errorf("%q", got)
		}
		o = f.open(creating(openArgs("file", "me", both, 0), wire.Unchecked4, fileSize(7)))
		if got := f.content(o, 100); len(got) != 5 || !o.Attrset.IsEmpty() {
			t.Errorf("a file that was there: %q, %v set", got, o.Attrset)
		}
		f.close(o)
		nothingLeft(t, s)
	})
}
