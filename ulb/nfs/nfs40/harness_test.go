package nfs40_test

import (
	"slices"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs40"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest"
)

// Short names for the types that every table uses.
type (
	op     = nfs4test.Op
	status = wire.NFSStat4
)

const ok = wire.NFS4OK

// kinds are the names of the objects that newPeer makes below the root, one of each kind.
// The directory is not empty.
var kinds = []string{"file", "dir", "link", "block", "char", "socket", "fifo"}

// content is the content of "file".
const content = "content of a file"

// If hesitant is true, test servers use file systems that never answer an attempt that must not
// block (TestWhereEachCallWaits). If onDisk is true, they use directories of this machine
// (TestOnTheMachinesOwnFiles).
var hesitant, onDisk bool

// far, if not nil, makes test servers that run in another process and export a directory.
var far func(t testing.TB, directory string) *nfs4test.Site

// newPeer makes a test server with minor version 0 only, and returns a connection to it.
func newPeer(t testing.TB) *peer {
	t.Helper()
	if far != nil {
		dir := t.TempDir()
		populate(t, exported(t, dir))
		return &peer{far(t, dir).Peer(0)}
	}
	var fs vfs.FileSystem = memfs.New(memfs.Options{RootMode: 0o777})
	if onDisk {
		fs = exported(t, t.TempDir())
	}
	populate(t, fs)
	if hesitant {
		fs = vfstest.Hesitant(fs)
	}
	s := nfs4test.New(t, nfs4test.Config{FS: fs, Minors: func(m *state.Manager) [3]nfs4.Minor {
		return [3]nfs4.Minor{nfs40.New(nfs40.Config{State: m})}
	}})
	return &peer{s.Peer(0)}
}

func populate(t testing.TB, fs vfs.FileSystem) {
	t.Helper()
	root, op := fs.Root(), &vfs.Op{Cred: &vfs.Cred{}}
	must := func(_ vfs.Object, _ vfs.Change, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	attr := vfs.SetAttr{SetMode: true, Mode: 0o777}
	f, _, err := fs.Create(op, root, []byte("file"), &vfs.CreateHow{Attr: attr})
	must(f, vfs.Change{}, err)
	if _, _, _, err := fs.Write(op, f.Handle, 0, [][]byte{[]byte(content)}, vfs.FileSync); err != nil {
		t.Fatal(err)
	}
	d, _, err := fs.Mkdir(op, root, []byte("dir"), &attr)
	must(d, vfs.Change{}, err)
	must(fs.Create(op, d.Handle, []byte("inner"), &vfs.CreateHow{Attr: attr}))
	must(fs.Mkdir(op, root, []byte("empty"), &attr))
	must(fs.Symlink(op, root, []byte("link"), []byte("file"), &vfs.SetAttr{}))
	for name, kind := range map[string]vfs.Type{"block": vfs.BlockDevice, "char": vfs.CharDevice, "socket": vfs.Socket, "fifo": vfs.FIFO} {
		must(fs.Mknod(op, root, []byte(name), kind, &attr, 1, 3))
	}
}

// A peer sends compounds and checks their statuses.
type peer struct{ *nfs4test.Peer }

// run executes a compound. All operations except the last must succeed, and the last must
// end with want.
func (p *peer) run(t testing.TB, want status, ops ...op) *nfs4test.Result {
	t.Helper()
	return p.oneOf(t, []status{want}, ops...)
}

// oneOf is like run, for cases in which the standard allows several statuses.
func (p *peer) oneOf(t testing.TB, want []status, ops ...op) *nfs4test.Result {
	t.Helper()
	r := p.Compound(ops...)
	if !slices.Contains(want, r.Status) {
		t.Errorf("%v after %d of %d operations, want %v", r.Status, len(r.Ops), len(ops), want)
		if r.Status != ok {
			t.FailNow()
		}
	}
	if len(r.Ops) != len(ops) {
		t.Fatalf("%v of operation %d, not of the last", r.Status, len(r.Ops)-1)
	}
	if got := r.Ops[len(ops)-1].Status; got != r.Status {
		t.Fatalf("the compound ended with %v, its last operation with %v", r.Status, got)
	}
	return r
}

// last decodes the result of the last operation.
func last(t testing.TB, r *nfs4test.Result, res interface{ Decode(d *xdr.Decoder) }) {
	t.Helper()
	r.Ops[len(r.Ops)-1].Into(t, res)
}

// handle returns the file handle of a path below the root.
func (p *peer) handle(t testing.TB, path ...string) []byte {
	t.Helper()
	var res wire.GetFH4Res
	last(t, p.run(t, ok, join(at(path...), getFH)...), &res)
	return slices.Clone(res.ResOK.Object)
}

// A row is one case of a table.
type row struct {
	name string
	ops  []op
	want status
	or   status // another status that the standard allows, or 0
}

// table runs each row on a server of its own.
func table(t *testing.T, rows []row) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			want := []status{r.want}
			if r.or != 0 {
				want = append(want, r.or)
			}
			newPeer(t).oneOf(t, want, r.ops...)
		})
	}
}

// byKind runs ops on an object of each kind. want has the expected statuses by kind. The status for
// all other kinds is otherwise.
func byKind(t *testing.T, want map[string]status, otherwise status, ops ...op) {
	t.Helper()
	eachKind(t, want, otherwise, func(kind string) []op { return join(at(kind), ops...) })
}

// eachKind runs the compound for each kind, each on a server of its own.
func eachKind(t *testing.T, want map[string]status, otherwise status, ops func(kind string) []op) {
	t.Helper()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			w, there := want[kind]
			if !there {
				w = otherwise
			}
			newPeer(t).run(t, w, ops(kind)...)
		})
	}
}

// join concatenates two lists of operations.
func join(ops []op, more ...op) []op { return append(slices.Clip(ops), more...) }
