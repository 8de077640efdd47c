package nfs3_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

func TestWriteThenReadBack(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		f := s.create(s.root, "f", 0o600)
		res := s.write(f, 3, "hello", wire.FileSync)
		want(t, "WRITE", res.Status, wire.NFS3OK)
		want(t, "count", res.ResOK.Count, 5)
		want(t, "committed", res.ResOK.Committed, wire.FileSync)
		if w := res.ResOK.FileWcc; !w.Before.AttributesFollow || w.Before.Attributes.Size != 0 || !w.After.AttributesFollow || w.After.Attributes.Size != 8 {
			t.Errorf("wcc %+v", w)
		}
		for _, c := range []struct {
			offset uint64
			count  uint32
			data   string
			eof    bool
		}{
			{0, 100, "\x00\x00\x00hello", true}, {3, 5, "hello", true}, {3, 4, "hell", false}, {8, 10, "", true}, {1 << 40, 1, "", true}, {0, 0, "", false},
		} {
			r, data := s.read(f, c.offset, c.count)
			want(t, "READ", r.Status, wire.NFS3OK)
			if data != c.data || r.ResOK.EOF != c.eof || int(r.ResOK.Count) != len(data) {
				t.Errorf("READ %d at %d: %q eof %v count %d", c.count, c.offset, data, r.ResOK.EOF, r.ResOK.Count)
			}
		}
	})
}

func TestWriteWithWrongCountIsGarbage(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		f := s.create(s.root, "f", 0o600)
		_, err := s.run(s.message(wire.ProcWrite, &wire.Write3Args{FileHandle: f, Count: 4, Data: eligible("hello")})).Results()
		wantReply(t, err, rpc.AcceptGarbageArgs)
		want(t, "size afterwards", s.getattr(f).Size, 0)
	})
}

func TestCommitAndWriteShareAVerifierThatAFailedSyncChanges(t *testing.T) {
	eachSiteOf(t, memfs.Options{RootMode: 0o777, Unsynced: true}, func(t *testing.T, s *site) {
		f := s.create(s.root, "f", 0o600)
		before := s.write(f, 0, "x", wire.Unstable)
		var c wire.Commit3Res
		s.call(wire.ProcCommit, &wire.Commit3Args{FileHandle: f}, &c)
		want(t, "COMMIT", c.Status, wire.NFS3OK)
		want(t, "verifier", c.ResOK.Verf, before.ResOK.Verf)
		s.fs.FailSync(syscall.EIO)
		s.write(f, 0, "y", wire.Unstable)
		s.call(wire.ProcCommit, &wire.Commit3Args{FileHandle: f}, &c)
		want(t, "COMMIT that fails", c.Status, wire.NFS3ErrIO)
		after := s.write(f, 0, "y", wire.Unstable)
		if after.ResOK.Verf == before.ResOK.Verf {
			t.Error("the verifier is the same after a failed sync")
		}
	})
}

func TestCreateModes(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		create := func(how wire.CreateHow3) wire.Create3Res {
			var res wire.Create3Res
			s.call(wire.ProcCreate, &wire.Create3Args{Where: s.at(s.root, "f"), How: how}, &res)
			return res
		}
		verf := wire.CreateVerf3{1, 2, 3}
		want(t, "EXCLUSIVE", create(wire.CreateHow3{Mode: wire.Exclusive, Verf: verf}).Status, wire.NFS3OK)
		want(t, "EXCLUSIVE again, other XID", create(wire.CreateHow3{Mode: wire.Exclusive, Verf: verf}).Status, wire.NFS3OK)
		want(t, "EXCLUSIVE, other verifier", create(wire.CreateHow3{Mode: wire.Exclusive, Verf: wire.CreateVerf3{9}}).Status, wire.NFS3ErrExist)
		want(t, "GUARDED", create(wire.CreateHow3{Mode: wire.Guarded}).Status, wire.NFS3ErrExist)
		res := create(wire.CreateHow3{Mode: wire.Unchecked, ObjAttributes: mode(0o640)})
		want(t, "UNCHECKED", res.Status, wire.NFS3OK)
		if !res.ResOK.Obj.HandleFollows || !res.ResOK.ObjAttributes.AttributesFollow || !res.ResOK.DirWcc.After.AttributesFollow {
			t.Errorf("CREATE leaves out what it knows: %+v", res.ResOK)
		}
	})
}

// A CREATE that gives a new file a size sets the times and the mode that it names as well.
func TestCreateWithASizeSetsTheRest(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		how := wire.CreateHow3{Mode: wire.Unchecked, ObjAttributes: mode(0o6755)}
		a := &how.ObjAttributes
		a.Size = wire.SetSize3{SetIt: true, Size: 100}
		a.Atime = wire.SetAtime{SetIt: wire.SetToClientTime, Atime: wire.NFSTime3{Seconds: 1}}
		a.Mtime = wire.SetMtime{SetIt: wire.SetToClientTime, Mtime: wire.NFSTime3{Seconds: 2}}
		var res wire.Create3Res
		s.call(wire.ProcCreate, &wire.Create3Args{Where: s.at(s.root, "f"), How: how}, &res)
		want(t, "CREATE", res.Status, wire.NFS3OK)
		for _, got := range []wire.Fattr3{res.ResOK.ObjAttributes.Attributes, s.getattr(wire.FileHandle3{Data: res.ResOK.Obj.Handle.Data})} {
			want(t, "size", got.Size, 100)
			want(t, "mode", got.Mode, 0o6755)
			want(t, "atime", got.Atime, a.Atime.Atime)
			want(t, "mtime", got.Mtime, a.Mtime.Mtime)
		}
	})
}

func TestRetransmittedCallsAreNotExecutedAgain(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		s.create(s.root, "f", 0o600)
		m := s.message(wire.ProcRemove, &wire.Remove3Args{Object: s.at(s.root, "f")})
		for range 3 {
			d, err := s.run(m).Results()
			if err != nil {
				t.Fatal(err)
			}
			var res wire.Remove3Res
			res.Decode(d)
			want(t, "REMOVE", res.Status, wire.NFS3OK)
		}
		var res wire.Remove3Res
		s.call(wire.ProcRemove, &wire.Remove3Args{Object: s.at(s.root, "f")}, &res)
		want(t, "REMOVE by another call", res.Status, wire.NFS3ErrNoEnt)
	})
}

func TestGuardedSetattr(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		f := s.create(s.root, "f", 0o600)
		set := func(ctime wire.NFSTime3) wire.NFSStat3 {
			var res wire.Setattr3Res
			s.call(wire.ProcSetattr, &wire.Setattr3Args{Object: f, NewAttributes: mode(0o644), Guard: wire.SattrGuard3{Check: true, ObjCtime: ctime}}, &res)
			return res.Status
		}
		a := s.getattr(f)
		other := a.Ctime
		other.Nanoseconds ^= 1
		want(t, "another ctime", set(other), wire.NFS3ErrNotSync)
		want(t, "mode", s.getattr(f).Mode, 0o600)
		want(t, "its ctime", set(a.Ctime), wire.NFS3OK)
		want(t, "mode", s.getattr(f).Mode, 0o644)
	})
}

func TestNamesAreMadeAndTaken(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		f := s.create(s.root, "f", 0o600)
		d := s.mkdir(s.root, "d")
		var link wire.Link3Res
		s.call(wire.ProcLink, &wire.Link3Args{FileHandle: f, Link: s.at(d, "g")}, &link)
		want(t, "LINK", link.Status, wire.NFS3OK)
		want(t, "nlink", link.ResOK.FileAttributes.Attributes.Nlink, 2)
		var ren wire.Rename3Res
		s.call(wire.ProcRename, &wire.Rename3Args{From: s.at(s.root, "f"), To: s.at(d, "h")}, &ren)
		want(t, "RENAME", ren.Status, wire.NFS3OK)
		var look wire.Lookup3Res
		s.call(wire.ProcLookup, &wire.Lookup3Args{What: s.at(d, "h")}, &look)
		want(t, "LOOKUP", look.Status, wire.NFS3OK)
		want(t, "handle over RENAME", string(look.ResOK.Object.Data), string(f.Data))
		s.call(wire.ProcLookup, &wire.Lookup3Args{What: s.at(s.root, "f")}, &look)
		want(t, "LOOKUP of the old name", look.Status, wire.NFS3ErrNoEnt)
		if !look.ResFail.DirAttributes.AttributesFollow {
			t.Error("LOOKUP that fails does not tell the directory's attributes")
		}
		var rm wire.Rmdir3Res
		s.call(wire.ProcRmdir, &wire.Rmdir3Args{Object: s.at(s.root, "d")}, &rm)
		want(t, "RMDIR of a full directory", rm.Status, wire.NFS3ErrNotEmpty)
		var mk wire.Mknod3Res
		s.call(wire.ProcMknod, &wire.Mknod3Args{Where: s.at(s.root, "p"), What: wire.MknodData3{Type: wire.NF3Fifo, PipeAttributes: mode(0o600)}}, &mk)
		want(t, "MKNOD", mk.Status, wire.NFS3OK)
		want(t, "type", mk.ResOK.ObjAttributes.Attributes.Type, wire.NF3Fifo)
		dev := wire.MknodData3{Type: wire.NF3Chr, Device: wire.DeviceData3{Spec: wire.SpecData3{Major: 5, Minor: 1}}}
		s.call(wire.ProcMknod, &wire.Mknod3Args{Where: s.at(s.root, "c"), What: dev}, &mk)
		want(t, "MKNOD device", mk.ResOK.ObjAttributes.Attributes.Rdev, wire.SpecData3{Major: 5, Minor: 1})
		s.call(wire.ProcMknod, &wire.Mknod3Args{Where: s.at(s.root, "r"), What: wire.MknodData3{Type: wire.NF3Reg}}, &mk)
		want(t, "MKNOD of a regular file", mk.Status, wire.NFS3ErrBadType)
	})
}

func TestSymlinkTextComesBackWhole(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		for _, n := range []int{1, 1000, 1023, 4095} {
			text := strings.Repeat("x", n)
			var made wire.Symlink3Res
			s.call(wire.ProcSymlink, &wire.Symlink3Args{Where: s.at(s.root, name(n)), Symlink: wire.SymlinkData3{SymlinkData: eligible(text)}}, &made)
			want(t, "SYMLINK", made.Status, wire.NFS3OK)
			l := wire.FileHandle3{Data: append([]byte(nil), made.ResOK.Obj.Handle.Data...)}
			var res wire.Readlink3Res
			s.call(wire.ProcReadlink, &wire.Readlink3Args{Symlink: l}, &res)
			want(t, "READLINK", res.Status, wire.NFS3OK)
			want(t, "text", string(res.ResOK.Data.Data), text)
		}
	})
}

func TestListingSeesEachLastingEntryOnce(t *testing.T) {
	const lasting = 3000
	eachSite(t, func(t *testing.T, s *site) {
		for i := range lasting {
			s.create(s.root, name(i), 0o600)
		}
		for _, plus := range []bool{false, true} {
			extra := 0
			names, calls := s.names(s.root, plus, 8192, func() {
				// Another client adds and removes names between the calls.
				s.create(s.root, "extra-"+name(extra), 0o600)
				if extra > 0 {
					var res wire.Remove3Res
					s.call(wire.ProcRemove, &wire.Remove3Args{Object: s.at(s.root, "extra-"+name(extra-1))}, &res)
				}
				extra++
			})
			if calls < 10 {
				t.Fatalf("only %d calls", calls)
			}
			seen := map[string]int{}
			for _, n := range names {
				seen[n]++
			}
			for i := range lasting {
				if seen[name(i)] != 1 {
					t.Fatalf("plus=%v: %s was seen %d times", plus, name(i), seen[name(i)])
				}
			}
			if seen["."] != 1 || seen[".."] != 1 {
				t.Error(". and .. are not in the listing once")
			}
			for i := range extra {
				s.run(s.message(wire.ProcRemove, &wire.Remove3Args{Object: s.at(s.root, "extra-"+name(i))}))
			}
		}
	})
}

func TestListingKeepsToTheSizeAsked(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		for i := range 500 {
			s.create(s.root, name(i), 0o600)
		}
		for _, count := range []uint32{512, 1000, 4096, 1 << 20} {
			for _, p := range []wire.Procedure{wire.ProcReaddir, wire.ProcReaddirPlus} {
				var args encoder = &wire.Readdir3Args{Dir: s.root, Count: count}
				if p == wire.ProcReaddirPlus {
					args = &wire.ReaddirPlus3Args{Dir: s.root, DirCount: count, MaxCount: count}
				}
				d, err := s.run(s.message(p, args)).Results()
				if err != nil {
					t.Fatal(err)
				}
				if n := d.Len() - 4; n > int(count) { // the status is not counted (RFC 1813 §3.3.16)
					t.Errorf("%v of %d bytes takes %d", p, count, n)
				}
			}
		}
		var res wire.Readdir3Res
		s.call(wire.ProcReaddir, &wire.Readdir3Args{Dir: s.root, Count: 100}, &res)
		want(t, "a size that holds no entry", res.Status, wire.NFS3ErrTooSmall)
	})
}

func TestReadOnlyExport(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		f := s.create(s.root, "f", 0o666)
		s.export.ReadOnly = true
		want(t, "WRITE", s.write(f, 0, "x", wire.Unstable).Status, wire.NFS3ErrROFS)
		for p, args := range map[wire.Procedure]encoder{
			wire.ProcSetattr: &wire.Setattr3Args{Object: f, NewAttributes: mode(0)},
			wire.ProcCreate:  &wire.Create3Args{Where: s.at(s.root, "n")},
			wire.ProcMkdir:   &wire.Mkdir3Args{Where: s.at(s.root, "n")},
			wire.ProcSymlink: &wire.Symlink3Args{Where: s.at(s.root, "n"), Symlink: wire.SymlinkData3{SymlinkData: eligible("t")}},
			wire.ProcMknod:   &wire.Mknod3Args{Where: s.at(s.root, "n"), What: wire.MknodData3{Type: wire.NF3Fifo}},
			wire.ProcRemove:  &wire.Remove3Args{Object: s.at(s.root, "f")},
			wire.ProcRmdir:   &wire.Rmdir3Args{Object: s.at(s.root, "f")},
			wire.ProcRename:  &wire.Rename3Args{From: s.at(s.root, "f"), To: s.at(s.root, "g")},
			wire.ProcLink:    &wire.Link3Args{FileHandle: f, Link: s.at(s.root, "g")},
			wire.ProcCommit:  &wire.Commit3Args{FileHandle: f},
		} {
			d, err := s.run(s.message(p, args)).Results()
			if err != nil {
				t.Fatal(p, err)
			}
			want(t, p.String(), wire.NFSStat3(d.Int32()), wire.NFS3ErrROFS)
		}
		var acc wire.Access3Res
		s.call(wire.ProcAccess, &wire.Access3Args{Object: f, Access: 0x3f}, &acc)
		if acc.ResOK.Access&(wire.Access3Modify|wire.Access3Extend|wire.Access3Delete) != 0 {
			t.Errorf("ACCESS grants %#x", acc.ResOK.Access)
		}
		_, data := s.read(f, 0, 10)
		want(t, "READ", data, "")
	})
}

func TestHandlesThatAreNotOurs(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		f := s.create(s.root, "f", 0o600)
		status := func(fh []byte) wire.NFSStat3 {
			var res wire.Getattr3Res
			s.call(wire.ProcGetattr, &wire.Getattr3Args{Object: wire.FileHandle3{Data: fh}}, &res)
			return res.Status
		}
		forged := append([]byte(nil), f.Data...)
		forged[len(forged)-1]++
		want(t, "sealed for another file system", status(forged), wire.NFS3ErrStale)
		forged[0]++
		want(t, "forged", status(forged), wire.NFS3ErrBadHandle)
		want(t, "empty", status(nil), wire.NFS3ErrBadHandle)
		want(t, "64 zeros", status(make([]byte, 64)), wire.NFS3ErrBadHandle)
		tooLong := append(s.message(wire.ProcGetattr, nil), 0, 0, 0, 65)
		_, err := s.run(append(tooLong, make([]byte, 68)...)).Results()
		wantReply(t, err, rpc.AcceptGarbageArgs)
		var rm wire.Remove3Res
		s.call(wire.ProcRemove, &wire.Remove3Args{Object: s.at(s.root, "f")}, &rm)
		want(t, "removed", status(f.Data), wire.NFS3ErrStale)
		s.export.Secure, s.conn.Privileged = true, false
		want(t, "from a port that is not privileged", status(s.root.Data), wire.NFS3ErrAccess)
	})
}

func TestNamesThatNoFileSystemMaySee(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		for n, status := range map[string]wire.NFSStat3{
			"": wire.NFS3ErrAccess, "a/b": wire.NFS3ErrInvalid, "a\x00b": wire.NFS3ErrInvalid,
			strings.Repeat("n", 256): wire.NFS3ErrNameTooLong, strings.Repeat("n", 4096): wire.NFS3ErrNameTooLong,
		} {
			var res wire.Create3Res
			s.call(wire.ProcCreate, &wire.Create3Args{Where: s.at(s.root, n)}, &res)
			want(t, "CREATE", res.Status, status)
			var look wire.Lookup3Res
			s.call(wire.ProcLookup, &wire.Lookup3Args{What: s.at(s.root, n)}, &look)
			want(t, "LOOKUP", look.Status, status)
		}
		long := strings.Repeat("n", 255)
		s.create(s.root, long, 0o600)
		var rm wire.Remove3Res
		s.call(wire.ProcRemove, &wire.Remove3Args{Object: s.at(s.root, long)}, &rm)
		want(t, "255 bytes", rm.Status, wire.NFS3OK)
	})
}

func TestCallsThatBlockAreAnsweredByTheExecutor(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		f := s.create(s.root, "f", 0o600)
		s.write(f, 0, "data", wire.Unstable)
		release := s.fs.Stall()
		defer release() // if the test fails, the site is closed, and waits for its calls
		c := rpctest.NewCall(s.conn, s.message(wire.ProcRead, &wire.Read3Args{FileHandle: f, Count: 4}))
		plan, ok := s.rpc.Admit(&c.Call)
		if !ok {
			t.Fatal("not admitted")
		}
		if c.Memory, ok = s.share.TryGetIn(plan.Group, plan.Results); !ok {
			t.Fatal("no memory")
		}
		s.rpc.Serve(&c.Call) // returns although the file system stalls
		await.Return(t, "the call is with the file system", func() { s.fs.AwaitStalled(1) })
		release()
		await.Receive(t, "the call is answered", c.Done)
		c.Memory.Release()
		d, err := c.Results()
		if err != nil {
			t.Fatal(err)
		}
		var res wire.Read3Res
		res.Decode(d)
		want(t, "data", string(res.ResOK.Data.Data), "data")
		if !c.Detached {
			t.Error("the call was not detached")
		}
	})
}

// A READ of 0 bytes that has to wait has no payload memory to release.
func TestReadOfNothing(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		f := s.create(s.root, "f", 0o600)
		s.write(f, 0, "data", wire.Unstable)
		for _, offset := range []uint64{0, 4, 1 << 40} {
			r, data := s.read(f, offset, 0)
			want(t, "READ", r.Status, wire.NFS3OK)
			want(t, "count", r.ResOK.Count, 0)
			want(t, "data", data, "")
		}
		r, _ := s.read(s.mkdir(s.root, "d"), 0, 0)
		want(t, "READ of a directory", r.Status, wire.NFS3ErrIsDir)
	})
}

// If the reply to a READ would not fit, READ returns as much as fits (conformance row V1-110).
func TestReadKeepsToTheRoom(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		f := s.create(s.root, "f", 0o600)
		s.write(f, 0, strings.Repeat("z", 8000), wire.Unstable)
		for _, c := range []struct {
			room   rpc.Room
			places []int
			want   int
		}{
			// Header, status, attributes, count, eof and length take 128 bytes.
			{rpc.Room{Inline: 1000}, nil, 1000 - 128},
			{rpc.Room{Inline: 1000, ReplyChunk: 4000}, nil, 4000 - 128},
			{rpc.Room{Inline: 1000}, []int{777}, 777},
			{rpc.Room{Inline: 1000}, []int{-1}, 1000 - 128},
		} {
			s.room, s.places = c.room, c.places
			r, data := s.read(f, 0, 8000)
			want(t, "READ", r.Status, wire.NFS3OK)
			if len(data) != c.want || r.ResOK.EOF {
				t.Errorf("room %+v, places %v: %d bytes, eof %v", c.room, c.places, len(data), r.ResOK.EOF)
			}
		}
	})
}

func TestFileSystemFacts(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		var info wire.Fsinfo3Res
		s.call(wire.ProcFsinfo, &wire.Fsinfo3Args{FSRoot: s.root}, &info)
		want(t, "FSINFO", info.Status, wire.NFS3OK)
		want(t, "rtmax", info.ResOK.ReadMax, nfs.MaxTransfer)
		want(t, "wtmax", info.ResOK.WriteMax, nfs.MaxTransfer)
		if info.ResOK.Properties&(wire.FSF3Link|wire.FSF3Symlink|wire.FSF3CanSetTime) == 0 || info.ResOK.MaxFileSize == 0 {
			t.Errorf("FSINFO %+v", info.ResOK)
		}
		var stat wire.Fsstat3Res
		s.call(wire.ProcFsstat, &wire.Fsstat3Args{FSRoot: s.root}, &stat)
		if stat.Status != wire.NFS3OK || stat.ResOK.TotalBytes == 0 || stat.ResOK.FreeBytes > stat.ResOK.TotalBytes {
			t.Errorf("FSSTAT %+v", stat)
		}
		var path wire.Pathconf3Res
		s.call(wire.ProcPathconf, &wire.Pathconf3Args{Object: s.root}, &path)
		if path.Status != wire.NFS3OK || path.ResOK.NameMax != 255 {
			t.Errorf("PATHCONF %+v", path)
		}
	})
}

func TestEveryProcedureRefusesBadArguments(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		for p := wire.ProcNull; p <= wire.ProcCommit; p++ {
			m := append(s.message(p, nil), 0xff, 0xff, 0xff, 0xff)
			_, err := s.run(m).Results()
			wantReply(t, err, rpc.AcceptGarbageArgs)
		}
		_, err := s.run(s.message(wire.ProcCommit+1, nil)).Results()
		wantReply(t, err, rpc.AcceptProcUnavail)
	})
}

func TestAnyErrnoHasAStatus(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		f := s.create(s.root, "f", 0o600)
		for errno, status := range map[syscall.Errno]wire.NFSStat3{
			syscall.EDQUOT: wire.NFS3ErrDQuot, syscall.ENOSPC: wire.NFS3ErrNoSpace, syscall.EBADF: wire.NFS3ErrIO,
			syscall.EMFILE: wire.NFS3ErrJukebox, syscall.ESTALE: wire.NFS3ErrStale,
			syscall.EBUSY: wire.NFS3ErrAccess,
		} {
			s.fs.Fail(memfs.Write, errno)
			want(t, errno.Error(), s.write(f, 0, "x", wire.Unstable).Status, status)
		}
	})
}

// Every error of a file system has a status, wrapped or not. An error that has no status of its
// own gets NFS3ERR_SERVERFAULT.
func TestAnyErrorHasAStatus(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		f := s.create(s.root, "f", 0o600)
		for _, c := range []struct {
			err    error
			status wire.NFSStat3
		}{
			{vfs.ErrBadHandle, wire.NFS3ErrBadHandle}, {vfs.ErrNotSync, wire.NFS3ErrNotSync}, {vfs.ErrBadCookie, wire.NFS3ErrBadCookie},
			{vfs.ErrDelay, wire.NFS3ErrJukebox}, {vfs.ErrNotSupported, wire.NFS3ErrNotSupp}, {pendingError{}, wire.NFS3ErrJukebox},
			{errors.New("another"), wire.NFS3ErrServerFault}, {syscall.EDQUOT, wire.NFS3ErrDQuot},
		} {
			for _, err := range []error{c.err, fmt.Errorf("wrapped: %w", c.err)} {
				s.fs.Fail(memfs.Write, err)
				want(t, err.Error(), s.write(f, 0, "x", wire.Unstable).Status, c.status)
			}
		}
	})
}

// pendingError is the error of a look-up that has not ended yet.
type pendingError struct{}

func (pendingError) Error() string       { return "it is looked up" }
func (pendingError) Await(resume func()) { resume() }
