package nfs4_test

import (
	"fmt"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// A useOfOpen is a compound that uses the stateids of two open files.
type useOfOpen struct {
	name  string
	minor uint32 // the first minor version that has the operation
	// stateOnly is true if the operation changes only the client's state and does not access
	// the file.
	stateOnly bool
	ops       func(x *principals) []nfs4test.Op
}

var usesOfOpens = []useOfOpen{
	{"READ", 0, false, func(x *principals) []nfs4test.Op { return x.on(opRead(x.file.Stateid, 0, 4)) }},
	{"WRITE", 0, false, func(x *principals) []nfs4test.Op { return x.on(opWrite(x.file.Stateid, 0, "data")) }},
	{"SETATTR of the size", 0, false, func(x *principals) []nfs4test.Op {
		return x.on(nfs4test.Op{Number: wire.OpSetattr, Args: &wire.Setattr4Args{Stateid: x.file.Stateid, ObjAttributes: fileSize(100)}})
	}},
	{"LOCK to read", 0, false, func(x *principals) []nfs4test.Op { return x.on(x.lock(wire.ReadLt)) }},
	{"LOCK to write", 0, false, func(x *principals) []nfs4test.Op { return x.on(x.lock(wire.WriteLt)) }},
	{"LOCKU", 0, true, func(x *principals) []nfs4test.Op { return x.on(x.unlock()) }},
	{"SEEK", 2, false, func(x *principals) []nfs4test.Op { return x.on(opSeek(x.file.Stateid, 0, wire.NFS4ContentData)) }},
	{"READ_PLUS", 2, false, func(x *principals) []nfs4test.Op { return x.on(opReadPlus(x.file.Stateid, 0, 4)) }},
	{"ALLOCATE", 2, false, func(x *principals) []nfs4test.Op { return x.on(opAllocate(x.file.Stateid, 0, 4)) }},
	{"DEALLOCATE", 2, false, func(x *principals) []nfs4test.Op { return x.on(opDeallocate(x.file.Stateid, 0, 4)) }},
	{"IO_ADVISE", 2, true, func(x *principals) []nfs4test.Op {
		return x.on(nfs4test.Op{Number: wire.OpIOAdvise, Args: &wire.IOAdvise4Args{Stateid: x.file.Stateid, Count: 4}})
	}},
	{"COPY", 2, false, func(x *principals) []nfs4test.Op {
		return []nfs4test.Op{putFH(x.file.fh), op(wire.OpSaveFH), putFH(x.other.fh), opCopy(x.file.Stateid, x.other.Stateid, 0, 0, 4)}
	}},
	{"CLONE", 2, false, func(x *principals) []nfs4test.Op {
		return []nfs4test.Op{putFH(x.file.fh), op(wire.OpSaveFH), putFH(x.other.fh), opClone(x.file.Stateid, x.other.Stateid, 0, 0, 4)}
	}},
}

// principals holds the state that one user of a client has opened, for tests in which other
// users of the client use it.
type principals struct {
	*filer
	file, other opened
	locked      wire.StateID4 // byte 0 of file, locked by the opener
	lockSeqid   uint32
	offset      uint64 // offset of the last lock
}

func (x *principals) on(o nfs4test.Op) []nfs4test.Op { return []nfs4test.Op{putFH(x.file.fh), o} }

// lock returns a LOCK of one more byte with the lock's stateid.
func (x *principals) lock(how wire.NFSLockType4) nfs4test.Op {
	x.offset++
	o := opLock(x.locked, how, x.offset, 1)
	o.Args.(*wire.Lock4Args).Locker.LockOwner.Seqid = x.lockSeqid
	x.lockSeqid++
	return o
}

// unlock returns a LOCKU of a range that is not locked.
func (x *principals) unlock() nfs4test.Op {
	o := opUnlock(x.locked, 1<<40, 1)
	o.Args.(*wire.Locku4Args).Seqid = x.lockSeqid
	x.lockSeqid++
	return o
}

// as makes later calls come from another caller: one with a user ID, or one with a principal
// proven by Kerberos.
func (x *principals) as(uid uint32, principal string) {
	x.UID, x.GID, x.Principal = uid, uid, principal
}

// opens opens a file for reading and writing as the present caller. In minor version 0 it also
// confirms the open.
func (x *principals) opens(name string) opened {
	x.t.Helper()
	args := openArgs(name, "owner of "+name, both, 0)
	args.Seqid = 1
	o := x.open(args)
	if x.Minor == 0 {
		var res wire.OpenConfirm4Res
		x.want(wire.NFS4OK, putFH(o.fh), nfs4test.Op{Number: wire.OpOpenConfirm, Args: &wire.OpenConfirm4Args{OpenStateid: o.Stateid, Seqid: 2}}).Ops[1].Into(x.t, &res)
		o.Stateid = res.ResOK.Stateid
	}
	return o
}

const opener, stranger = 1000, 2000

// newPrincipals makes a caller open two files of user 0 that everyone may read and write, and
// lock a byte of one of them.
func newPrincipals(t *testing.T, s *nfs4test.Site, minor uint32, uid uint32, principal string) *principals {
	x := &principals{filer: newFiler(t, s, minor)}
	for _, name := range []string{"file", "other"} {
		x.mode(name, 0o666)
	}
	x.as(uid, principal)
	x.file, x.other = x.opens("file"), x.opens("other")
	first := opFirstLock(x.file.Stateid, "locker", wire.WriteLt, 0, 1)
	first.Args.(*wire.Lock4Args).Locker.OpenOwner.OpenSeqid = 3
	var res wire.Lock4Res
	x.want(wire.NFS4OK, putFH(x.file.fh), opWrite(x.file.Stateid, 0, "content"))
	x.want(wire.NFS4OK, putFH(x.file.fh), first).Ops[1].Into(t, &res)
	x.locked, x.lockSeqid = res.ResOK.LockStateid, 1
	return x
}

// mode sets a file's mode as the file's owner. If the file does not exist, mode creates it.
func (x *principals) mode(name string, mode uint32) {
	x.t.Helper()
	op := &vfs.Op{Cred: &vfs.Cred{}}
	fs := x.Export.FS
	o, _, err := fs.Create(op, fs.Root(), []byte(name), &vfs.CreateHow{})
	if err == nil {
		_, err = fs.SetAttr(op, o.Handle, &vfs.SetAttr{SetMode: true, Mode: mode}, nil)
	}
	if err != nil {
		x.t.Fatal(err)
	}
}

// use runs the compound of u, and returns its status.
func (x *principals) use(u *useOfOpen) wire.NFSStat4 {
	r := x.Compound(u.ops(x)...)
	if n := len(r.Ops); n > 0 && r.Status == wire.NFS4OK && r.Ops[n-1].Number == wire.OpLock {
		var res wire.Lock4Res
		r.Ops[n-1].Into(x.t, &res)
		x.locked = res.ResOK.LockStateid
	} else if n > 0 && r.Status == wire.NFS4OK && r.Ops[n-1].Number == wire.OpLocku {
		var res wire.Locku4Res
		r.Ops[n-1].Into(x.t, &res)
		x.locked = res.Stateid
	}
	return r.Status
}

func inMemory() vfs.FileSystem { return memfs.New(memfs.Options{RootMode: 0o777}) }

// If a caller presents a stateid of an open that another principal made, the caller's own
// permission is checked, in every operation that uses the open and in every minor version (RFC
// 8881 §18.16.3, RFC 7530 §16.16.6). The opener keeps its access when the mode changes. An
// operation that only gives up state needs only a valid stateid.
func TestStateidOfAnotherPrincipal(t *testing.T) {
	type caller struct {
		name      string
		uid       uint32
		principal string
	}
	callers := []caller{{"another user", stranger, ""}, {"the client's machine", 0, "host/client@TEST"}}
	for _, opener := range []caller{{"a user", opener, ""}, {"a proven user", 0, "alice@TEST"}} {
		others := callers
		if opener.principal != "" {
			// This caller claims, without proof, the user ID of the proven user.
			others = append(others, caller{"an unproven user of the same number", 65534, ""})
		}
		for _, fs := range []struct {
			name  string
			fs    func() vfs.FileSystem
			opens bool
		}{
			{"in memory", inMemory, true}, {"a directory", func() vfs.FileSystem { return directory(t) }, true},
			{"without open files", func() vfs.FileSystem { return unopened{inMemory()} }, false},
		} {
			for minor := range uint32(3) {
				t.Run(fmt.Sprintf("%s, %s, 4.%d", opener.name, fs.name, minor), func(t *testing.T) {
					x := newPrincipals(t, openSiteOver(t, fs.fs()), minor, opener.uid, opener.principal)
					for i := range usesOfOpens {
						u := &usesOfOpens[i]
						if u.minor > minor {
							continue
						}
						good := x.use(u)
						if good == wire.NFS4ErrAccess || minor < 2 && good != wire.NFS4OK {
							t.Fatalf("%s by the opener: %v", u.name, good)
						}
						for _, mode := range []uint32{0o666, 0o600, 0o666} {
							x.mode("file", mode)
							x.mode("other", mode)
							may := mode == 0o666 || u.stateOnly || good == wire.NFS4ErrNotSupp && !fs.opens
							for _, c := range append([]caller{opener}, others...) {
								x.as(c.uid, c.principal)
								want := good
								if !may && !(c == opener && (fs.opens || u.name[:4] == "LOCK")) {
									want = wire.NFS4ErrAccess
								}
								if got := x.use(u); got != want {
									t.Errorf("%s by %s, mode %o: %v, want %v", u.name, c.name, mode, got, want)
								}
							}
							x.as(opener.uid, opener.principal)
						}
					}
				})
			}
		}
	}
}

// OPEN_DOWNGRADE and CLOSE only give up state. The server requires a valid stateid, and checks
// neither the principal nor the file's mode (RFC 8881 §18.2, §18.18, RFC 7530 §16.2.5, §16.19).
// After an OPEN_DOWNGRADE the open still belongs to the opener, and permits only the remaining
// access.
func TestStateidGivenBackByAnotherPrincipal(t *testing.T) {
	type caller struct {
		name      string
		uid       uint32
		principal string
	}
	callers := []caller{
		{"the opener", opener, ""}, {"another user", stranger, ""}, {"the client's machine", 0, "host/client@TEST"}, {"another proven user", 0, "bob@TEST"},
	}
	for _, opens := range []bool{true, false} {
		fs := inMemory()
		if !opens {
			fs = unopened{fs}
		}
		s := openSiteOver(t, fs)
		for minor := range uint32(3) {
			for _, c := range callers {
				for _, mode := range []uint32{0o666, 0o600} {
					x := &principals{filer: newFiler(t, s, minor)}
					name := fmt.Sprint("given back ", minor, mode, c.name)
					x.mode(name, 0o666)
					x.as(opener, "")
					o := x.opens(name)
					x.want(wire.NFS4OK, putFH(o.fh), opWrite(o.Stateid, 0, "data"))
					again := openArgs(name, "owner of "+name, readable, 0)
					again.Seqid = 3
					o = x.open(again)
					x.mode(name, mode)
					seqid := func(n uint32) uint32 { return n * (1 - min(minor, 1)) }

					x.as(c.uid, c.principal)
					down := opDowngrade(o.Stateid, readable, 0)
					down.Args.(*wire.OpenDowngrade4Args).Seqid = seqid(4)
					r := x.Compound(putFH(o.fh), down)
					if r.Status != wire.NFS4OK {
						t.Fatalf("4.%d, mode %o: OPEN_DOWNGRADE by %s: %v", minor, mode, c.name, r.Status)
					}
					var res wire.OpenDowngrade4Res
					r.Ops[1].Into(t, &res)
					o.Stateid = res.ResOK.Stateid

					for _, by := range callers {
						x.as(by.uid, by.principal)
						want := wire.NFS4OK
						if mode == 0o600 && !(opens && by == callers[0]) {
							want = wire.NFS4ErrAccess
						}
						if got := x.Compound(putFH(o.fh), opRead(o.Stateid, 0, 4)).Status; got != want {
							t.Errorf("4.%d, mode %o: READ by %s behind OPEN_DOWNGRADE by %s: %v, want %v", minor, mode, by.name, c.name, got, want)
						}
						if got := x.Compound(putFH(o.fh), opWrite(o.Stateid, 0, "data")).Status; got != wire.NFS4ErrOpenMode {
							t.Errorf("4.%d, mode %o: WRITE by %s behind OPEN_DOWNGRADE by %s: %v", minor, mode, by.name, c.name, got)
						}
					}

					x.as(c.uid, c.principal)
					if got := x.Compound(putFH(o.fh), opClose(o.Stateid, seqid(5))).Status; got != wire.NFS4OK {
						t.Errorf("4.%d, mode %o: CLOSE by %s: %v", minor, mode, c.name, got)
					}
					x.as(opener, "")
					if got := x.Compound(putFH(o.fh), opRead(o.Stateid, 0, 4)).Status; got == wire.NFS4OK {
						t.Errorf("4.%d, mode %o: CLOSE by %s has closed nothing", minor, mode, c.name)
					}
				}
			}
		}
	}
}

// In minor version 0, the same checks apply to a stateid that comes over another client's
// connection. The opener may use it there.
func TestStateidOverAnotherConnection(t *testing.T) {
	s := openSite(t)
	x := newPrincipals(t, s, 0, opener, "")
	x.mode("file", 0o600)
	elsewhere := newFiler(t, s, 0)
	elsewhere.UID = stranger
	elsewhere.want(wire.NFS4ErrAccess, putFH(x.file.fh), opRead(x.file.Stateid, 0, 4))
	elsewhere.want(wire.NFS4ErrAccess, putFH(x.file.fh), opWrite(x.file.Stateid, 0, "data"))
	elsewhere.UID = opener
	elsewhere.want(wire.NFS4OK, putFH(x.file.fh), opRead(x.file.Stateid, 0, 4))
}

// A stateid that was opened only for writing also permits reading, if the caller may read the
// file and no other open denies reading (RFC 7530 §9.1.6).
func TestReadByAnOpenToWrite(t *testing.T) {
	eachOpenSite(t, func(t *testing.T, s *nfs4test.Site) {
		x := &principals{filer: newFiler(t, s, 1)}
		x.mode("file", 0o666)
		x.as(opener, "")
		o := x.open(openArgs("file", "owner", writable, readable))
		x.want(wire.NFS4OK, putFH(o.fh), opWrite(o.Stateid, 0, "data"))
		if got := x.content(o, 4); got != "data" {
			t.Errorf("%q", got)
		}
		x.mode("file", 0o622)
		x.want(wire.NFS4ErrAccess, putFH(o.fh), opRead(o.Stateid, 0, 4))
		x.mode("file", 0o666)
		x.want(wire.NFS4ErrOpenMode, putFH(o.fh), opFirstLock(o.Stateid, "locker", wire.ReadLt, 0, 1))
		x.close(o)
		o = x.open(openArgs("file", "owner", writable, 0))
		denier := x.open(openArgs("file", "denier", writable, readable))
		x.want(wire.NFS4ErrLocked, putFH(o.fh), opRead(o.Stateid, 0, 4))
		x.close(denier)
		x.want(wire.NFS4OK, putFH(o.fh), opRead(o.Stateid, 0, 4))
	})
}

// After a restart the same holds for a claim: the client's record does not say which files it had open. The
// owner may claim its file, whatever the mode is now.
func TestClaimOfADenyModeTakesPermissionToWrite(t *testing.T) {
	for _, c := range []struct {
		name      string
		uid, mode uint32
		deny      uint32
		want      wire.NFSStat4
	}{
		{"a user who may only read", opener, 0o644, both, wire.NFS4ErrReclaimBad},
		{"a user who may only read, without a deny mode", opener, 0o644, 0, wire.NFS4OK},
		{"a user who may write", opener, 0o666, both, wire.NFS4OK},
		{"the owner", 0, 0o444, both, wire.NFS4OK},
	} {
		var minor *known
		s := nfs4test.New(t, nfs4test.Config{State: state.Config{Records: remembered{}}, Minors: func(m *state.Manager) [3]nfs4.Minor {
			minor = newKnown(m, 1)
			minor.reclaims = true
			return [3]nfs4.Minor{nil, minor, nil}
		}})
		x := &principals{filer: newFiler(t, s, 1)}
		minor.of(x.Conn)
		x.mode("file", c.mode)
		var dir vfs.Attr
		o, err := s.FS.Lookup(&vfs.Op{Cred: &vfs.Cred{}}, s.FS.Root(), []byte("file"), &dir)
		if err != nil {
			t.Fatal(err)
		}
		x.as(c.uid, "")
		a := openArgs("", "me", readable, c.deny)
		a.Claim = wire.OpenClaim4{Claim: wire.ClaimPrevious}
		r := x.Compound(putFH(s.Exports.Seal(nil, s.Exports.Root(), o.Handle)), opOpen(a))
		if r.Status != c.want {
			t.Errorf("a claim by %s: %v, want %v", c.name, r.Status, c.want)
		}
	}
}

// A caller that may read a file but not write it cannot open it with a deny mode.
func TestDenyModesTakePermissionToWrite(t *testing.T) {
	eachOpenSite(t, func(t *testing.T, s *nfs4test.Site) {
		x := &principals{filer: newFiler(t, s, 1)}
		x.mode("file", 0o644)
		x.as(stranger, "")
		for _, deny := range []uint32{readable, wire.Open4ShareAccessWrite, both} {
			x.refused(wire.NFS4ErrAccess, openArgs("file", "stranger", readable, deny))
		}
		x.close(x.open(openArgs("file", "stranger", readable, 0)))
		x.mode("file", 0o666)
		x.close(x.open(openArgs("file", "stranger", readable, both)))
		// A caller that created the file needs no further permission.
		args := creating(openArgs("made", "stranger", readable, both), wire.Guarded4, fileMode(0o444))
		x.close(x.open(args))
		nothingLeft(t, s)
	})
}
