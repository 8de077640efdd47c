package nfs4_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// The requests of an owner with seqids run one after the other: each waits until the one before
// has ended. A repeated request, with the same caller and the same arguments, gets the same
// reply.
func TestRequestsOfAnOwnerWaitForEachOther(t *testing.T) {
	fs := memfs.New(memfs.Options{RootMode: 0o777})
	s := openSiteOver(t, fs)
	f := newFiler(t, s, 0)
	numbered := func(seqid uint32, name string) []nfs4test.Op {
		args := openArgs(name, "me", readable, 0)
		args.Seqid = seqid
		return []nfs4test.Op{op(wire.OpPutRootFH), opOpen(creating(args, wire.Unchecked4, fileMode(0o600))), op(wire.OpGetFH)}
	}
	r := f.want(wire.NFS4OK, numbered(7, "first")...)
	var res wire.Open4Res
	r.Ops[1].Into(t, &res)
	var fh wire.GetFH4Res
	r.Ops[2].Into(t, &fh)
	if res.ResOK.Rflags&wire.Open4ResultConfirm == 0 {
		t.Error("the first OPEN of an owner needs no confirmation")
	}
	f.want(wire.NFS4OK, putFH(fh.ResOK.Object), nfs4test.Op{Number: wire.OpOpenConfirm, Args: &wire.OpenConfirm4Args{OpenStateid: res.ResOK.Stateid, Seqid: 8}})

	// waits runs two requests: slow, which stalls in the file system, and other, which is sent
	// meanwhile.
	waits := func(slow, other []nfs4test.Op) (first, second wire.Open4Res) {
		t.Helper()
		release := fs.Stall(memfs.Create)
		defer release() // if the test fails, the site is closed, and waits for its calls
		a := f.Begin(f.Message("", slow...))
		await.Return(t, "a request is with the file system", func() { fs.AwaitStalled(1) })
		b := f.Begin(f.Message("", other...))
		select {
		case <-b.Done:
			t.Fatal("a request was answered before the one under way")
		default:
		}
		release()
		f.Parse(f.End(a)).Ops[1].Into(t, &first)
		f.Parse(f.End(b)).Ops[1].Into(t, &second)
		return first, second
	}
	first, second := waits(numbered(9, "second"), numbered(9, "second"))
	if first.Status != wire.NFS4OK || first.ResOK.Stateid != second.ResOK.Stateid {
		t.Errorf("the same request has made %v and %v", first, second)
	}
	first, second = waits(numbered(10, "third"), numbered(11, "fourth"))
	if first.Status != wire.NFS4OK || second.Status != wire.NFS4OK || first.ResOK.Stateid == second.ResOK.Stateid {
		t.Errorf("two requests have made %v and %v", first, second)
	}
	f.want(wire.NFS4ErrBadSeqID, numbered(13, "fifth")...)
	f.want(wire.NFS4ErrBadSeqID, numbered(11, "another request of the number")...)
	f.Principal = "another@TEST"
	f.want(wire.NFS4ErrBadSeqID, numbered(11, "fourth")...)
	f.Principal = ""
	f.want(wire.NFS4OK, numbered(11, "fourth")...)
}
