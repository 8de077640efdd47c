package nfs4_test

import (
	"bytes"
	"testing"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest"
)

// A local program writes into a hole while READ_PLUS runs: before its first call of the file system, then
// before the second one, and so on. The result has no segment twice, and each of its bytes is one that
// the file had.
func TestReadPlusBesideAChange(t *testing.T) {
	const piece = 64 << 10
	mem := memfs.New(memfs.Options{RootMode: 0o777})
	root := &vfs.Op{Cred: &vfs.Cred{}}
	calls, at := 0, -1 // the change comes before call number at; -1: never
	fs := vfstest.Before(mem, func(*vfs.Op, string) error {
		if calls == at {
			o, err := mem.Lookup(root, mem.Root(), []byte("file"), new(vfs.Attr))
			if err == nil {
				_, _, _, err = mem.Write(root, o.Handle, piece+1000, [][]byte{bytes.Repeat([]byte{9}, 1000)}, vfs.Unstable)
			}
			if err != nil {
				t.Error(err)
			}
		}
		calls++
		return nil
	})
	f := newFiler(t, openSiteOver(t, fs), 2)
	old := append(append(bytes.Repeat([]byte{7}, piece), make([]byte, piece)...), bytes.Repeat([]byte{8}, piece)...)
	now := bytes.Clone(old)
	copy(now[piece+1000:], bytes.Repeat([]byte{9}, 1000))
	for before := 0; ; before++ {
		at = -1
		o := f.create("file", "me", both, 0)
		f.want(wire.NFS4OK, putFH(o.fh), opWrite(o.Stateid, 0, string(old)))
		f.want(wire.NFS4OK, putFH(o.fh), opDeallocate(o.Stateid, piece, piece))
		calls, at = 0, before
		got, _, eof, err := f.tryPlus(o.fh, o.Stateid, 0, 3*piece)
		reached := calls > before
		at = -1
		if err != nil || len(got) != len(old) || !eof {
			t.Fatalf("a change before call %d: %d bytes, eof %v, %v", before, len(got), eof, err)
		}
		for i := range got {
			if got[i] != old[i] && got[i] != now[i] {
				t.Fatalf("a change before call %d: byte %d is %d", before, i, got[i])
			}
		}
		f.close(o)
		f.want(wire.NFS4OK, op(wire.OpPutRootFH), remove("file"))
		if !reached {
			if before < 5 {
				t.Errorf("READ_PLUS makes %d calls", before)
			}
			return
		}
	}
}
