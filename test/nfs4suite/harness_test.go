package nfs4suite

import (
	"bytes"
	"os"
	"sync"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs40"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs41"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest"
)

const ok = wire.NFS4OK

// newSite creates a server of all minor versions over fs. If fs is nil, the file system is in
// memory.
func newSite(t testing.TB, fs vfs.FileSystem, cfg state.Config) *nfs4test.Site {
	t.Helper()
	return nfs4test.New(t, nfs4test.Config{FS: fs, State: cfg, Minors: allMinors(t)})
}

// allMinors returns a function that creates all minor versions.
func allMinors(t testing.TB) func(m *state.Manager) [3]nfs4.Minor {
	return func(m *state.Manager) [3]nfs4.Minor {
		old := nfs40.New(nfs40.Config{State: m})
		t.Cleanup(old.Close)
		late := nfs41.New(nfs41.Config{State: m, Owner: []byte("owner"), Scope: []byte("scope")})
		return [3]nfs4.Minor{old, late, late}
	}
}

// each runs a test over a file system in memory, over one that returns ErrWouldBlock whenever it
// must not block, and over one on the disk.
func each(t *testing.T, test func(t *testing.T, site *nfs4test.Site)) {
	t.Run("mem", func(t *testing.T) { test(t, newSite(t, nil, state.Config{})) })
	t.Run("hesitant", func(t *testing.T) {
		test(t, newSite(t, vfstest.Hesitant(memfs.New(memfs.Options{RootMode: 0o777})), state.Config{}))
	})
	t.Run("local", func(t *testing.T) { test(t, newSite(t, newLocal(t), state.Config{})) })
	for name, site := range further {
		t.Run(name, func(t *testing.T) { test(t, site(t)) })
	}
}

// further has the additional sites over which each runs tests.
var further = map[string]func(t *testing.T) *nfs4test.Site{}

// newLocal returns a file system on the disk in which every user may create names.
func newLocal(t testing.TB) vfs.FileSystem {
	t.Helper()
	fs, err := local.New(local.Config{Root: exported(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fs.Close() })
	return fs
}

// exported returns a directory on the disk in which every user may create names.
func exported(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// records implements state.Records in memory. The records remain when the server ends.
type records struct {
	mu     sync.Mutex
	starts uint32
	known  map[holder]state.Record
}

// A holder identifies the client that a record belongs to.
type holder struct {
	kind  state.ClientKind
	owner string
}

func newRecords() *records { return &records{known: map[holder]state.Record{}} }

func (r *records) Begin() (starts uint32, known []state.Record, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starts++
	for _, k := range r.known {
		known = append(known, k)
	}
	return r.starts, known, nil
}

func (r *records) Put(more []state.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range more {
		r.known[holder{k.Kind, k.Owner}] = k
	}
	return nil
}

func (r *records) Remove(gone []state.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range gone {
		delete(r.known, holder{k.Kind, k.Owner})
	}
	return nil
}

type encoder interface{ Encode(w *xdr.Writer) }

type decoder interface{ Decode(d *xdr.Decoder) }

func op(n wire.OpNum, args ...encoder) nfs4test.Op {
	o := nfs4test.Op{Number: n}
	if len(args) > 0 {
		o.Args = args[0]
	}
	return o
}

// raw is encoded arguments.
type raw []byte

func (r raw) Encode(w *xdr.Writer) {
	w.FixedOpaque(r)
}

// encoded returns v encoded in XDR.
func encoded(v encoder) raw {
	w := xdr.NewWriter(make([]byte, 0, 1<<16))
	v.Encode(w)
	return bytes.Clone(w.Bytes())
}

// words returns arguments that consist of 32-bit words.
func words(all ...uint32) raw {
	w := xdr.NewWriter(make([]byte, 0, 4*len(all)))
	for _, v := range all {
		w.Uint32(v)
	}
	return w.Bytes()
}

// alone runs a compound of one operation, and decodes its result into res unless res is nil.
func alone(p *nfs4test.Peer, o nfs4test.Op, res decoder) wire.NFSStat4 {
	p.T.Helper()
	r := p.Compound(o)
	if len(r.Ops) != 1 || r.Status != r.Ops[0].Status {
		p.T.Fatalf("%v: %+v", o.Number, r)
	}
	if res != nil {
		r.Ops[0].Into(p.T, res)
	}
	return r.Status
}

// is fails the test if got is not the status that the test wants.
func is(t testing.TB, what string, got, want wire.NFSStat4) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, not %v", what, got, want)
	}
}
