package nfs3_test

import (
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest"
)

// stalledRecords is a state.Records from which nothing can be removed until a value comes from gone.
type stalledRecords struct {
	began chan struct{}
	gone  chan struct{}
}

func (r *stalledRecords) Begin() (uint32, []state.Record, error) { return 1, nil, nil }
func (r *stalledRecords) Put([]state.Record) error               { return nil }

func (r *stalledRecords) Remove([]state.Record) error {
	close(r.began)
	<-r.gone
	return nil
}

// Calls that a deny mode stops, of a client whose lease ran out, wait for that client's record to be removed.
// While the disk of the records stalls, they keep no worker from other calls in the same export.
func TestWritesThatWaitForTheRecords(t *testing.T) {
	fs := memfs.New(memfs.Options{RootMode: 0o777})
	s := newSiteOver(t, fs, vfstest.Hesitant(fs))
	r := &stalledRecords{began: make(chan struct{}), gone: make(chan struct{})}
	m, err := state.New(state.Config{Records: r, Lease: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	s.program.Ask(m)
	f, other := s.create(s.root, "f", 0o666), s.create(s.root, "other", 0o666)
	o, err := s.table.Find(f.Data)
	if err != nil {
		t.Fatal(err)
	}
	c := m.ExchangeID(&state.Identity{Owner: []byte("client")}, false).Client
	m.Confirm(c)
	m.ReclaimComplete(c, nil)
	if status := m.Record(c, state.KindOpen, state.AccessWrite, nil); status != 0 {
		t.Fatal(status)
	}
	key := state.FileKey{Domain: state.DomainOf(s.export.FS), Handle: o.Handle}
	if _, status := m.Open(&state.OpenArgs{Client: c, OwnerName: []byte("owner"), Key: key, Access: state.AccessRead, Deny: state.AccessWrite}); status != 0 {
		t.Fatal(status)
	}
	var late state.Later
	ask := state.Intent{Use: state.UseWrite, FS: s.export.FS, File: o.Handle, Op: &vfs.Op{Cred: &vfs.Cred{}}, Later: &late, Kind: state.Host}
	await.Until(t, "the lease runs out", func() bool {
		p, a := m.Ask(&ask)
		p.Done()
		return a == state.Delayed
	})

	var calls [300]*rpctest.Call // more than there are workers for a file system
	for i := range calls {
		calls[i] = rpctest.NewCall(s.conn, s.message(wire.ProcWrite, &wire.Write3Args{FileHandle: f, Count: 1, Stable: wire.FileSync, Data: xdr.Eligible{Data: []byte("x")}}))
		calls[i].Space = s.room
		if _, ok := s.rpc.Admit(&calls[i].Call); ok {
			s.rpc.Serve(&calls[i].Call)
		}
	}
	await.Receive(t, "the record is to be removed", r.began)
	want(t, "WRITE of another file", s.write(other, 0, "x", wire.FileSync).Status, wire.NFS3OK)
	for _, c := range calls {
		select {
		case <-c.Done:
			t.Fatal("a call was answered before the record was removed")
		default:
		}
	}
	close(r.gone)
	for _, c := range calls {
		await.Receive(t, "a call is answered", c.Done)
		d, err := c.Results()
		if err != nil {
			t.Fatal(err)
		}
		var res wire.Write3Res
		res.Decode(d)
		want(t, "WRITE", res.Status, wire.NFS3OK)
	}
}
