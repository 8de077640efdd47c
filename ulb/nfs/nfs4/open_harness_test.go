package nfs4_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs40"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest"
)

// known is a minor version in which each connection is a client.
type known struct {
	minor uint32
	state *state.Manager
	// reclaims is true if the clients may still reclaim state.
	reclaims bool
	mu       sync.Mutex
	conns    map[*rpc.Conn]*state.Client
}

func newKnown(m *state.Manager, minor uint32) *known {
	return &known{minor: minor, state: m, conns: map[*rpc.Conn]*state.Client{}}
}

func newNumbered(m *state.Manager) *numbered {
	return &numbered{known: newKnown(m, 0), Sequencer: nfs40.New(nfs40.Config{State: m})}
}

// numbered is minor version 0, whose owners number their requests.
type numbered struct {
	*known
	nfs4.Sequencer
}

// Operations returns the operations on owners.
func (n *numbered) Operations() []nfs4.Operation {
	return slices.DeleteFunc(n.Sequencer.(*nfs40.Minor).Operations(), func(op nfs4.Operation) bool {
		return op.Number != wire.OpOpenConfirm && op.Number != wire.OpReleaseLockOwner
	})
}

func (n *known) of(c *rpc.Conn) *state.Client {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.conns[c] == nil {
		if n.reclaims {
			x := n.state.ExchangeID(&state.Identity{Owner: fmt.Append(nil, len(n.conns))}, false)
			n.state.Confirm(x.Client)
			n.conns[c] = x.Client
			return x.Client
		}
		n.conns[c] = newClient(n.state, n.minor, fmt.Sprintf("%p", c))
	}
	return n.conns[c]
}

// newClient makes a client that may open files.
func newClient(m *state.Manager, minor uint32, name string) *state.Client {
	id := &state.Identity{Owner: []byte(name)}
	if minor == 0 {
		r := m.SetClientID(id, state.Callback{})
		m.ConfirmClientID(r.Client.ID, r.Confirm, "")
		return r.Client
	}
	x := m.ExchangeID(id, false)
	m.Confirm(x.Client)
	m.ReclaimComplete(x.Client, nil)
	return x.Client
}

func (n *known) Operations() []nfs4.Operation { return nil }

func (n *known) Before(k *nfs4.Compound, _ *nfs4.Operation) wire.NFSStat4 {
	if n.minor > 0 {
		k.Client = n.of(k.Call.Conn)
	}
	return wire.NFS4OK
}

func (n *known) After(*nfs4.Compound) {}

// Opened implements nfs4.Identifier.
func (n *known) Opened(*nfs4.Compound, *state.Client) {}

// Client implements nfs4.Identifier. Each client ID except 404 belongs to the connection's
// client.
func (n *known) Client(k *nfs4.Compound, id uint64) (*state.Client, wire.NFSStat4) {
	if id == 404 {
		return nil, wire.NFS4ErrStaleClientID
	}
	return n.of(k.Call.Conn), wire.NFS4OK
}

// openSite returns a site with all minor versions, over a file system in memory.
func openSite(t testing.TB) *nfs4test.Site { return openSiteOver(t, nil) }

// openSiteOver is like openSite, over fs. If fs is nil, the file system is in memory.
func openSiteOver(t testing.TB, fs vfs.FileSystem) *nfs4test.Site {
	return nfs4test.New(t, nfs4test.Config{FS: fs, Minors: func(m *state.Manager) [3]nfs4.Minor {
		return [3]nfs4.Minor{newNumbered(m), newKnown(m, 1), newKnown(m, 2)}
	}})
}

// unopened is a file system without open files.
type unopened struct{ vfs.FileSystem }

// eachOpenSite runs a test over several file systems. The result of an operation must be the
// same whether the operation runs once, or runs again because it had to wait, and whether the
// file system has open files or not.
func eachOpenSite(t *testing.T, test func(t *testing.T, s *nfs4test.Site)) {
	for _, manner := range []struct {
		name string
		of   func(fs vfs.FileSystem) vfs.FileSystem
	}{
		{"answering", func(fs vfs.FileSystem) vfs.FileSystem { return fs }},
		{"hesitant", func(fs vfs.FileSystem) vfs.FileSystem { return vfstest.Hesitant(fs) }},
		{"hesitant to open", func(fs vfs.FileSystem) vfs.FileSystem { return vfstest.Hesitant(fs, "Open") }},
		{"hesitant about open files", func(fs vfs.FileSystem) vfs.FileSystem {
			return vfstest.Hesitant(fs, "File.Read", "File.Write", "File.SetSize")
		}},
		{"without open files", func(fs vfs.FileSystem) vfs.FileSystem { return unopened{fs} }},
	} {
		t.Run(manner.name, func(t *testing.T) {
			test(t, openSiteOver(t, manner.of(memfs.New(memfs.Options{RootMode: 0o777}))))
		})
	}
	t.Run("a directory", func(t *testing.T) { test(t, openSiteOver(t, directory(t))) })
}

// directory returns a file system that exports a directory of this machine.
func directory(t testing.TB) vfs.FileSystem {
	root := t.TempDir()
	if err := os.Chmod(root, 0o777); err != nil {
		t.Fatal(err)
	}
	fs, err := local.New(local.Config{Root: root, StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fs.Close() })
	return fs
}

// A filer is a peer that opens files.
type filer struct {
	*nfs4test.Peer
	t testing.TB
	// dir is the handle of the directory in which it opens files; nil for that of PUTROOTFH.
	dir []byte
}

func newFiler(t testing.TB, s *nfs4test.Site, minor uint32) *filer {
	return &filer{Peer: s.Peer(minor), t: t}
}

// want runs a compound and returns its results. It fails the test unless the compound ends with
// the given status.
func (f *filer) want(status wire.NFSStat4, ops ...nfs4test.Op) *nfs4test.Result {
	f.t.Helper()
	r := f.Compound(ops...)
	if r.Status != status || status == wire.NFS4OK && len(r.Ops) != len(ops) {
		f.t.Fatalf("%v at operation %d: %v", r.Status, len(r.Ops), statuses(r))
	}
	return r
}

const (
	readable = wire.Open4ShareAccessRead
	writable = wire.Open4ShareAccessWrite
	both     = wire.Open4ShareAccessBoth
)

// openArgs returns the arguments of an OPEN by name that does not create the file.
func openArgs(name, owner string, access, deny uint32) *wire.Open4Args {
	return &wire.Open4Args{
		ShareAccess: access, ShareDeny: deny, Owner: wire.StateOwner4{Owner: []byte(owner)},
		Claim: wire.OpenClaim4{Claim: wire.ClaimNull, File: []byte(name)},
	}
}

// creating makes args create the file, and returns them.
func creating(args *wire.Open4Args, mode wire.Createmode4, attrs wire.FAttr4) *wire.Open4Args {
	args.Openhow = wire.Openflag4{Opentype: wire.Open4Create, How: wire.Createhow4{Mode: mode, Createattrs: attrs}}
	args.Openhow.How.Createboth.Attrs = attrs
	return args
}

func opOpen(args *wire.Open4Args) nfs4test.Op { return nfs4test.Op{Number: wire.OpOpen, Args: args} }

func opRead(id wire.StateID4, offset uint64, count uint32) nfs4test.Op {
	return nfs4test.Op{Number: wire.OpRead, Args: &wire.Read4Args{Stateid: id, Offset: offset, Count: count}}
}

func opWrite(id wire.StateID4, offset uint64, data string) nfs4test.Op {
	args := &wire.Write4Args{Stateid: id, Offset: offset, Stable: wire.FileSync4}
	args.Data.Data = []byte(data)
	return nfs4test.Op{Number: wire.OpWrite, Args: args}
}

func opClose(id wire.StateID4, seqid uint32) nfs4test.Op {
	return nfs4test.Op{Number: wire.OpClose, Args: &wire.Close4Args{Seqid: seqid, OpenStateid: id}}
}

func opDowngrade(id wire.StateID4, access, deny uint32) nfs4test.Op {
	return nfs4test.Op{Number: wire.OpOpenDowngrade, Args: &wire.OpenDowngrade4Args{OpenStateid: id, ShareAccess: access, ShareDeny: deny}}
}

// An opened holds the result of an OPEN and the handle of the file.
type opened struct {
	wire.Open4ResOK
	fh []byte
}

// open opens a file in f.dir.
func (f *filer) open(args *wire.Open4Args) opened {
	f.t.Helper()
	put := op(wire.OpPutRootFH)
	if f.dir != nil {
		put = putFH(f.dir)
	}
	r := f.want(wire.NFS4OK, put, opOpen(args), op(wire.OpGetFH))
	var res wire.Open4Res
	r.Ops[1].Into(f.t, &res)
	var fh wire.GetFH4Res
	r.Ops[2].Into(f.t, &fh)
	return opened{res.ResOK, bytes.Clone(fh.ResOK.Object)}
}

// refused checks that an OPEN fails with a status.
func (f *filer) refused(status wire.NFSStat4, args *wire.Open4Args) {
	f.t.Helper()
	f.want(status, op(wire.OpPutRootFH), opOpen(args))
}

func (f *filer) create(name, owner string, access, deny uint32) opened {
	f.t.Helper()
	return f.open(creating(openArgs(name, owner, access, deny), wire.Unchecked4, fileMode(0o644)))
}

func (f *filer) close(o opened) {
	f.t.Helper()
	f.want(wire.NFS4OK, putFH(o.fh), opClose(o.Stateid, 0))
}

// content reads a file's first bytes.
func (f *filer) content(o opened, n uint32) string {
	f.t.Helper()
	r := f.want(wire.NFS4OK, putFH(o.fh), opRead(o.Stateid, 0, n))
	var res wire.Read4Res
	r.Ops[1].Into(f.t, &res)
	return string(res.ResOK.Data.Data)
}

func fileMode(mode uint32) wire.FAttr4 {
	return wire.FAttr4{Attrmask: wire.Bits(wire.Fattr4Mode), AttrVals: []byte{byte(mode >> 24), byte(mode >> 16), byte(mode >> 8), byte(mode)}}
}

func fileSize(n byte) wire.FAttr4 {
	return wire.FAttr4{Attrmask: wire.Bits(wire.Fattr4Size), AttrVals: []byte{0, 0, 0, 0, 0, 0, 0, n}}
}

// nothingLeft fails the test if the server still has state of clients.
func nothingLeft(t testing.TB, s *nfs4test.Site) {
	t.Helper()
	if u := s.State.Usage(); u != (state.Usage{}) {
		t.Errorf("left over: %+v", u)
	}
}
