package nfs3_test

import (
	"testing"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// A call that Judge refuses gets a result in the form of a failure of its procedure (RFC 1813
// §3.3), without the optional attributes.
func TestRefusalsHaveTheFormOfTheirProcedure(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		f := wire.FileHandle3{Data: []byte("forged")}
		name := s.at(f, "name")
		for p, c := range everyCall(f, name) {
			t.Run(p.String(), func(t *testing.T) {
				d, err := s.run(s.message(p, c.args)).Results()
				if err != nil {
					t.Fatal(err)
				}
				status := *d
				want(t, "status", wire.NFSStat3(status.Int32()), wire.NFS3ErrBadHandle)
				c.res.Decode(d)
				if err := d.Finish(); err != nil {
					t.Errorf("%T does not decode: %v, %d bytes are left", c.res, err, d.Len())
				}
			})
		}
	})
}

// An exchange is the arguments of a procedure, and its results.
type exchange struct {
	args encoder
	res  decoder
}

// everyCall returns a call of every procedure but NULL, about the object f or a name in a directory.
func everyCall(f wire.FileHandle3, name wire.DirOpArgs3) map[wire.Procedure]exchange {
	return map[wire.Procedure]exchange{
		wire.ProcGetattr:     {&wire.Getattr3Args{Object: f}, new(wire.Getattr3Res)},
		wire.ProcSetattr:     {&wire.Setattr3Args{Object: f}, new(wire.Setattr3Res)},
		wire.ProcLookup:      {&wire.Lookup3Args{What: name}, new(wire.Lookup3Res)},
		wire.ProcAccess:      {&wire.Access3Args{Object: f}, new(wire.Access3Res)},
		wire.ProcReadlink:    {&wire.Readlink3Args{Symlink: f}, new(wire.Readlink3Res)},
		wire.ProcRead:        {&wire.Read3Args{FileHandle: f, Count: 9}, new(wire.Read3Res)},
		wire.ProcWrite:       {&wire.Write3Args{FileHandle: f, Count: 1, Data: eligible("x")}, new(wire.Write3Res)},
		wire.ProcCreate:      {&wire.Create3Args{Where: name}, new(wire.Create3Res)},
		wire.ProcMkdir:       {&wire.Mkdir3Args{Where: name}, new(wire.Mkdir3Res)},
		wire.ProcSymlink:     {&wire.Symlink3Args{Where: name}, new(wire.Symlink3Res)},
		wire.ProcMknod:       {&wire.Mknod3Args{Where: name, What: wire.MknodData3{Type: wire.NF3Fifo}}, new(wire.Mknod3Res)},
		wire.ProcRemove:      {&wire.Remove3Args{Object: name}, new(wire.Remove3Res)},
		wire.ProcRmdir:       {&wire.Rmdir3Args{Object: name}, new(wire.Rmdir3Res)},
		wire.ProcRename:      {&wire.Rename3Args{From: name, To: name}, new(wire.Rename3Res)},
		wire.ProcLink:        {&wire.Link3Args{FileHandle: f, Link: name}, new(wire.Link3Res)},
		wire.ProcReaddir:     {&wire.Readdir3Args{Dir: f, Count: 4096}, new(wire.Readdir3Res)},
		wire.ProcReaddirPlus: {&wire.ReaddirPlus3Args{Dir: f, MaxCount: 4096}, new(wire.ReaddirPlus3Res)},
		wire.ProcFsstat:      {&wire.Fsstat3Args{FSRoot: f}, new(wire.Fsstat3Res)},
		wire.ProcFsinfo:      {&wire.Fsinfo3Args{FSRoot: f}, new(wire.Fsinfo3Res)},
		wire.ProcPathconf:    {&wire.Pathconf3Args{Object: f}, new(wire.Pathconf3Res)},
		wire.ProcCommit:      {&wire.Commit3Args{FileHandle: f}, new(wire.Commit3Res)},
	}
}
