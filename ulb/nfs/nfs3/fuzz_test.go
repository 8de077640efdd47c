package nfs3_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// FuzzCall makes calls with any arguments of any procedure. Each call gets an answer without a
// panic, whether the file system answers at once or has to wait. All sites show one file system
// under the same handles.
func FuzzCall(f *testing.F) {
	s := newSite(f)
	sites := []*site{s}
	for _, m := range manners[1:] {
		sites = append(sites, newSiteOver(f, s.fs, m.of(s.fs)))
	}
	file := s.create(s.root, "f", 0o666)
	seeds := []encoder{
		nil, &wire.Getattr3Args{Object: file}, &wire.Setattr3Args{Object: file, NewAttributes: mode(0o600)},
		&wire.Lookup3Args{What: s.at(s.root, "f")}, &wire.Access3Args{Object: file, Access: 63}, &wire.Readlink3Args{Symlink: file},
		&wire.Read3Args{FileHandle: file, Count: 100}, &wire.Write3Args{FileHandle: file, Count: 1, Data: eligible("x")},
		&wire.Create3Args{Where: s.at(s.root, "n")}, &wire.Mkdir3Args{Where: s.at(s.root, "d")},
		&wire.Symlink3Args{Where: s.at(s.root, "l"), Symlink: wire.SymlinkData3{SymlinkData: eligible("t")}},
		&wire.Mknod3Args{Where: s.at(s.root, "p"), What: wire.MknodData3{Type: wire.NF3Fifo}},
		&wire.Remove3Args{Object: s.at(s.root, "n")}, &wire.Rmdir3Args{Object: s.at(s.root, "d")},
		&wire.Rename3Args{From: s.at(s.root, "l"), To: s.at(s.root, "m")}, &wire.Link3Args{FileHandle: file, Link: s.at(s.root, "k")},
		&wire.Readdir3Args{Dir: s.root, Count: 4096}, &wire.ReaddirPlus3Args{Dir: s.root, DirCount: 4096, MaxCount: 4096},
		&wire.Fsstat3Args{FSRoot: s.root}, &wire.Fsinfo3Args{FSRoot: s.root}, &wire.Pathconf3Args{Object: s.root}, &wire.Commit3Args{FileHandle: file},
	}
	seed := func(p wire.Procedure, args encoder) {
		m := s.message(p, args)
		f.Add(uint8(p), m[len(s.message(wire.ProcNull, nil)):])
	}
	for p, args := range seeds {
		seed(wire.Procedure(p), args)
	}
	seed(wire.ProcRead, &wire.Read3Args{FileHandle: file, Count: 0})
	seed(wire.ProcWrite, &wire.Write3Args{FileHandle: file, Count: 0, Stable: wire.FileSync})
	f.Fuzz(func(t *testing.T, p uint8, args []byte) {
		m := append(s.message(wire.Procedure(p%23), nil), args...)
		for i, s := range sites {
			s.t = t
			if c := s.run(m); c.End == rpctest.Open {
				t.Fatalf("no answer where the file system is %s", manners[i].name)
			}
		}
	})
}
