package nfs4_test

import (
	"os"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// sizeAndChange returns the size and the change attribute from the GETATTR at the end of a
// compound.
func sizeAndChange(t testing.TB, r *nfs4test.Result) (size, change uint64) {
	t.Helper()
	if r.Status != wire.NFS4OK {
		t.Fatalf("%v: %v", r.Status, statuses(r))
	}
	var res wire.Getattr4Res
	r.Ops[len(r.Ops)-1].Into(t, &res)
	d := xdr.NewDecoder(res.ResOK.Attributes.AttrVals)
	change = d.Uint64()
	return d.Uint64(), change
}

// If a WRITE waits for the disk, the GETATTR after it does not return an older state than other
// clients have already seen.
func TestAttributesBehindAStableWriteAreNotOld(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	bob, f := onDirectory(t, func(_ local.SyncCall, fd int) error {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && !first.Swap(true) {
			close(entered)
			<-release
		}
		return nil
	})
	o := bob.open(openArgs("f", "bob", both, 0))
	ask := getattr(wire.Fattr4Change, wire.Fattr4Size)
	c := bob.Begin(bob.Message("", putFH(o.fh), writeWith(o.Stateid, "four", wire.FileSync4), ask))
	await.Receive(t, "the WRITE waits for its sync", entered)
	if err := os.Truncate(f, 4096); err != nil {
		t.Fatal(err)
	}
	meanwhile, newer := sizeAndChange(t, bob.Compound(putFH(o.fh), ask))
	close(release)
	size, change := sizeAndChange(t, bob.Parse(bob.End(c)))
	if size != meanwhile || change < newer {
		t.Errorf("behind the sync size %d and change %d are told; %d and %d were told meanwhile", size, change, meanwhile, newer)
	}
}

// otherWriter is a file system that calls a function while a call waits. The function runs
// another client's WRITE.
type otherWriter struct {
	vfs.FileSystem
	stalls string // name of the method that waits
	// writes is called by the waiting call after it has read the file's attributes.
	writes func()
}

func (f *otherWriter) Access(op *vfs.Op, h vfs.Handle, want vfs.Access, a *vfs.Attr) (vfs.Access, error) {
	if f.stalls == "Access" && op.Try {
		return 0, vfs.ErrWouldBlock
	}
	has, err := f.FileSystem.Access(op, h, want, a)
	if f.stalls == "Access" {
		f.writes()
	}
	return has, err
}

func (f *otherWriter) Usage(op *vfs.Op, h vfs.Handle) (vfs.Usage, error) {
	if f.stalls == "Usage" && op.Try {
		f.writes()
		return vfs.Usage{}, vfs.ErrWouldBlock
	}
	return f.FileSystem.Usage(op, h)
}

// If no wait lies within an operation or between it and a following GETATTR, GETATTR returns
// the attributes that the operation found. Otherwise GETATTR asks the file system again.
func TestAttributesFromBeforeAWaitAreNotTold(t *testing.T) {
	for _, c := range []struct {
		stalls  string
		giveWay bool
	}{{"Access", false}, {"Access", true}, {"Usage", false}} {
		name := c.stalls + " waits"
		if c.giveWay {
			name += ", and the compound gives way behind it"
		}
		t.Run(name, func(t *testing.T) {
			fs := &otherWriter{FileSystem: memfs.New(memfs.Options{RootMode: 0o777})}
			s := openSiteOver(t, fs)
			f := newFiler(t, s, 1)
			o := f.create("file", "me", both, 0)
			f.want(wire.NFS4OK, putFH(o.fh), opWrite(o.Stateid, 0, "four"))
			if c.giveWay {
				s.Program.GiveWay()
			}
			h, err := fs.Lookup(&vfs.Op{Cred: &vfs.Cred{}}, fs.Root(), []byte("file"), new(vfs.Attr))
			if err != nil {
				t.Fatal(err)
			}
			written := false
			fs.writes = func() {
				written = true
				_, _, _, err := fs.Write(&vfs.Op{Cred: &vfs.Cred{}}, h.Handle, 4, [][]byte{[]byte("more")}, vfs.Unstable)
				if err != nil {
					t.Error(err)
				}
			}
			fs.stalls = c.stalls
			access := nfs4test.Op{Number: wire.OpAccess, Args: &wire.Access4Args{Access: wire.Access4Read}}
			size, _ := sizeAndChange(t, f.Compound(putFH(o.fh), access, getattr(wire.Fattr4Change, wire.Fattr4Size, wire.Fattr4SpaceAvail)))
			if size != 8 || !written {
				t.Errorf("size %d is told; a WRITE that was answered meanwhile made it 8", size)
			}
		})
	}
}

// A GETATTR after an operation that did not wait makes no call to the file system.
func TestAttributesThatWereBroughtAreTold(t *testing.T) {
	fs := &counting{FileSystem: memfs.New(memfs.Options{RootMode: 0o777})}
	f := newFiler(t, openSiteOver(t, fs), 1)
	o := f.create("file", "me", both, 0)
	before := fs.asked.Load()
	args := &wire.Write4Args{Stateid: state.Anonymous}
	args.Data.Data = []byte("four")
	r := f.Compound(putFH(o.fh), nfs4test.Op{Number: wire.OpWrite, Args: args}, getattr(wire.Fattr4Change, wire.Fattr4Size))
	if size, _ := sizeAndChange(t, r); size != 4 || fs.asked.Load() != before {
		t.Errorf("size %d is told, after %d questions", size, fs.asked.Load()-before)
	}
}

// counting counts the calls of GetAttr.
type counting struct {
	vfs.FileSystem
	asked atomic.Int64
}

func (f *counting) GetAttr(op *vfs.Op, h vfs.Handle, a *vfs.Attr) error {
	f.asked.Add(1)
	return f.FileSystem.GetAttr(op, h, a)
}
