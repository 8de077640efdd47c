package nfs3_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// Words in results of a Linux client's NFSv3: attributes after an operation, and those before and after it.
const (
	status   = 1
	postOp   = 1 + 21
	wcc      = 1 + 6 + postOp
	handle   = 1 + 16
	made     = status + 1 + handle + postOp + wcc
	listed   = status + postOp + 2
	linkPage = 4096
)

// linuxRooms has, for each procedure, the words that a Linux client keeps for its results (Linux 6.12 and 7.2:
// the macros NFS3_*res_sz in fs/nfs/nfs3xdr.c), without the bytes that the arguments ask for. A client
// cuts a longer reply, and the program that waits for it gets EIO.
var linuxRooms = map[wire.Procedure]int{
	wire.ProcNull:        0,
	wire.ProcGetattr:     status + 21,
	wire.ProcSetattr:     status + wcc,
	wire.ProcLookup:      status + handle + 2*postOp,
	wire.ProcAccess:      status + postOp + 1,
	wire.ProcReadlink:    status + postOp + 1,
	wire.ProcRead:        status + postOp + 3,
	wire.ProcWrite:       status + wcc + 4,
	wire.ProcCreate:      made,
	wire.ProcMkdir:       made,
	wire.ProcSymlink:     made,
	wire.ProcMknod:       made,
	wire.ProcRemove:      status + wcc,
	wire.ProcRmdir:       status + wcc,
	wire.ProcRename:      status + 2*wcc,
	wire.ProcLink:        status + postOp + wcc,
	wire.ProcReaddir:     listed,
	wire.ProcReaddirPlus: listed,
	wire.ProcFsstat:      status + postOp + 13,
	wire.ProcFsinfo:      status + postOp + 12,
	wire.ProcPathconf:    status + postOp + 6,
	wire.ProcCommit:      status + wcc + 2,
}

// linuxRoom returns how many bytes a Linux client keeps for the results of a call.
func linuxRoom(p wire.Procedure, args encoder) int {
	n := 4 * linuxRooms[p]
	switch a := args.(type) {
	case *wire.Read3Args:
		n += int(a.Count) + xdr.Pad(int(a.Count))
	case *wire.Readdir3Args:
		n += int(a.Count)
	case *wire.ReaddirPlus3Args:
		n += int(a.MaxCount)
	case *wire.Readlink3Args:
		n += linkPage
	}
	return n
}

// site.call holds the results of each call against linuxRooms. So each procedure needs a row, and the longest
// results that the protocol allows must fit, because those of a fixed length can become as long.
func TestLinuxRoomOfEveryProcedure(t *testing.T) {
	most := map[wire.Procedure]int{
		wire.ProcGetattr: wire.Getattr3ResMaxSize, wire.ProcSetattr: wire.Setattr3ResMaxSize, wire.ProcLookup: wire.Lookup3ResMaxSize,
		wire.ProcAccess: wire.Access3ResMaxSize, wire.ProcReadlink: wire.Readlink3ResMaxReducedSize, wire.ProcRead: wire.Read3ResMaxReducedSize,
		wire.ProcWrite: wire.Write3ResMaxSize, wire.ProcCreate: wire.Create3ResMaxSize, wire.ProcMkdir: wire.Mkdir3ResMaxSize,
		wire.ProcSymlink: wire.Symlink3ResMaxSize, wire.ProcMknod: wire.Mknod3ResMaxSize, wire.ProcRemove: wire.Remove3ResMaxSize,
		wire.ProcRmdir: wire.Rmdir3ResMaxSize, wire.ProcRename: wire.Rename3ResMaxSize, wire.ProcLink: wire.Link3ResMaxSize,
		wire.ProcFsstat: wire.Fsstat3ResMaxSize, wire.ProcFsinfo: wire.Fsinfo3ResMaxSize, wire.ProcPathconf: wire.Pathconf3ResMaxSize,
		wire.ProcCommit: wire.Commit3ResMaxSize,
	}
	for i, p := range nfs.Binding3.Procedures {
		words, ok := linuxRooms[wire.Procedure(i)]
		if p.Name != "" && !ok {
			t.Errorf("%s has no row", p.Name)
		}
		if most[wire.Procedure(i)] > 4*words {
			t.Errorf("%s: up to %d bytes; a Linux client has room for %d", p.Name, most[wire.Procedure(i)], 4*words)
		}
	}
	// A directory and a link whose results fill the room.
	s := newSite(t)
	for i := range 300 {
		s.create(s.root, name(i), 0o600)
	}
	for count := uint32(512); count < 20_000; count += 397 {
		for _, plus := range []bool{false, true} {
			s.names(s.root, plus, count, nil)
		}
	}
}
