package nfs4_test

import (
	"slices"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A stateid works only for those who may act on the file themselves. The tests in this file are about
// callers that call themselves what the opener is called (user 0), but act as the anonymous user.

// givesUp lists the operations with a stateid that need no right to the file, because they only give up
// state, ask for it, or claim what this server never grants.
var givesUp = []wire.OpNum{
	wire.OpClose, wire.OpOpenConfirm, wire.OpOpenDowngrade, wire.OpLocku, wire.OpFreeStateID, wire.OpTestStateID,
	wire.OpDelegreturn, wire.OpOpen,
}

// Each operation with a stateid in its arguments is either in usesOfOpens, so that the tests of this file try
// it, or in givesUp.
func TestEveryUseOfAStateidIsTried(t *testing.T) {
	s := openSite(t)
	x := newPrincipals(t, s, 2, 0, "")
	var tried []wire.OpNum
	for i := range usesOfOpens {
		ops := usesOfOpens[i].ops(x)
		tried = append(tried, ops[len(ops)-1].Number)
	}
	for minor := range uint32(3) {
		all := s.Program.TakeStateids(minor)
		if !slices.Contains(all, wire.OpRead) || slices.Contains(all, wire.OpGetFH) || slices.Contains(all, wire.OpLookup) {
			t.Fatalf("4.%d: these are not the operations with a stateid: %v", minor, all)
		}
		for _, n := range all {
			if !slices.Contains(tried, n) && !slices.Contains(givesUp, n) {
				t.Errorf("4.%d: %v takes a stateid, and no test tries it as another caller", minor, n)
			}
		}
	}
}

// With AUTH_NONE a caller acts as the anonymous user. It claims no user, and is not the root who opened the
// file.
func TestStateidUnderAuthNone(t *testing.T) {
	for minor := range uint32(3) {
		x := newPrincipals(t, openSiteOver(t, directory(t)), minor, 0, "")
		x.mode("file", 0o600)
		x.Nobody = true
		for i := range usesOfOpens {
			if u := &usesOfOpens[i]; u.minor <= minor && !u.stateOnly {
				if got := x.use(u); got != wire.NFS4ErrAccess {
					t.Errorf("4.%d, %s under AUTH_NONE with root's stateid: %v", minor, u.name, got)
				}
			}
		}
	}
}

// squash adds another export of the file system of s.
func squash(t *testing.T, s *nfs4test.Site, how export.Squash) *export.Export {
	e := &export.Export{Name: "/squashed", FS: s.FS, Options: export.Options{Squash: how, AnonUID: export.Nobody, AnonGID: export.Nobody}}
	if err := s.Exports.Replace([]*export.Export{s.Export, e}); err != nil {
		t.Fatal(err)
	}
	return e
}

// inExport returns the handle that an export has for the file of another handle.
func inExport(t *testing.T, e *export.Export, s *nfs4test.Site, fh []byte) []byte {
	o, err := s.Exports.Find(fh)
	if err != nil {
		t.Fatal(err)
	}
	return s.Exports.Seal(nil, e, o.Handle)
}

// One directory is exported twice: to an administrator's machine, and to others, whose root is squashed. The
// stateids of the administrator are worth nothing in the other export: neither on another machine (minor
// version 0 knows no sessions) nor on the administrator's own.
func TestStateidInAnotherExport(t *testing.T) {
	for minor := range uint32(3) {
		s := openSiteOver(t, directory(t))
		squashed := squash(t, s, export.RootSquash)
		x := newPrincipals(t, s, minor, 0, "")
		x.mode("file", 0o600)
		x.mode("other", 0o600)
		for i := range usesOfOpens {
			if u := &usesOfOpens[i]; u.minor <= minor {
				if got := x.use(u); got == wire.NFS4ErrAccess || minor < 2 && got != wire.NFS4OK {
					t.Fatalf("4.%d, %s by root in its own export: %v", minor, u.name, got)
				}
			}
		}
		x.file.fh, x.other.fh = inExport(t, squashed, s, x.file.fh), inExport(t, squashed, s, x.other.fh)
		if minor == 0 {
			x.Peer = s.Other(0)
		}
		seqid := x.lockSeqid // NFS4ERR_BAD_STATEID does not use up a number
		for i := range usesOfOpens {
			if u := &usesOfOpens[i]; u.minor <= minor {
				x.lockSeqid = seqid
				if got := x.use(u); got != wire.NFS4ErrBadStateID {
					t.Errorf("4.%d, %s in the squashed export with root's stateid: %v", minor, u.name, got)
				}
			}
		}
		down := opDowngrade(x.file.Stateid, readable, 0)
		down.Args.(*wire.OpenDowngrade4Args).Seqid = 4
		for _, o := range []nfs4test.Op{opClose(x.file.Stateid, 4), down} {
			if got := x.Compound(putFH(x.file.fh), o).Status; got != wire.NFS4ErrBadStateID {
				t.Errorf("4.%d, %v in the squashed export with root's stateid: %v", minor, o.Number, got)
			}
		}
	}
}

// In an export that squashes all callers, they act as one, and may use each other's opens. A user with the
// number of the anonymous user is another one.
func TestStateidOfTheAnonymousUser(t *testing.T) {
	for minor := range uint32(3) {
		s := openSiteOver(t, directory(t))
		squashed := squash(t, s, export.RootSquash)
		s.Exports.SetRoot(squashed)
		if err := s.Exports.Replace([]*export.Export{s.Export}); err != nil {
			t.Fatal(err)
		}
		x := newPrincipals(t, s, minor, 0, "")
		x.mode("file", 0o600) // of user 0, and no caller acts as user 0 here
		x.mode("other", 0o600)
		for _, c := range []struct {
			name   string
			uid    uint32
			nobody bool
			may    bool
		}{
			{"root", 0, false, true}, {"AUTH_NONE", 0, true, true}, {"the user nobody", export.Nobody, false, false},
		} {
			x.as(c.uid, "")
			x.Nobody = c.nobody
			for i := range usesOfOpens {
				if u := &usesOfOpens[i]; u.minor <= minor && !u.stateOnly && u.name[:4] != "LOCK" {
					if got := x.use(u); (got == wire.NFS4ErrAccess) == c.may {
						t.Errorf("4.%d, %s by %s: %v", minor, u.name, c.name, got)
					}
				}
			}
		}
	}
}

// In minor version 0 the server keeps an owner's last reply for the client to repeat its request. The same
// request with a handle of another export of the directory gets nothing of it, because it may come from a
// machine that only this export serves: the kept reply to an OPEN makes a file in the first export the current one.
func TestKeptReplyInAnotherExport(t *testing.T) {
	s := openSiteOver(t, directory(t))
	second := squash(t, s, export.NoSquash)
	x := newPrincipals(t, s, 0, 0, "")
	x.mode("new", 0o600)
	x.opens("new")
	args := openArgs("new", "owner of new", readable, 0)
	args.Seqid = 3
	o := x.open(args)
	if again := x.open(args); again.Stateid != o.Stateid {
		t.Fatalf("the repeated OPEN has the stateid %v, the first one %v", again.Stateid, o.Stateid)
	}
	dir := s.Exports.Seal(nil, second, s.FS.Root())
	x.want(wire.NFS4ErrBadSeqID, putFH(dir), opOpen(args), op(wire.OpGetFH))
}
