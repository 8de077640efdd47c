package client_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/testserver"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// unchecked4 makes a file if it does not exist.
var unchecked4 = &wire.Createhow4{Mode: wire.Unchecked4, Createattrs: client.ModeAttribute(0o644)}

// Calls on files, names and locks work with this module's server, over each transport, in each
// minor version.
func TestNFS4(t *testing.T) {
	for _, minor := range []uint32{1, 2} {
		for _, name := range []string{"tcp", "iwarp", "memory", "memory2"} {
			t.Run(fmt.Sprintf("4.%d over %s", minor, name), func(t *testing.T) {
				server := testserver.Start(t)
				server.ServeNFS4(t, 0)
				s, err := client.DialSession(testserver.Within(t), client.SessionConfig{Target: server.Targets()[name], Minor: minor})
				must(t, err)
				defer func() { must(t, s.Close()) }()
				n := s.NFS4()
				root, err := n.Walk(testserver.Within(t), nil, "x")
				must(t, err)
				checkFiles4(t, n, root)
				checkNames4(t, n, root)
				checkLocks4(t, n, root)
			})
		}
	}
}

func checkFiles4(t *testing.T, n client.NFS4, root client.Handle) {
	ctx := testserver.Within(t)
	o, err := n.Open(ctx, client.Open4{Dir: root, Name: "file", Owner: []byte("o"), Access: wire.Open4ShareAccessBoth, Create: unchecked4})
	must(t, err)
	if o.Delegation != wire.OpenDelegateNoneExt { // a server gives this type only to clients that say what they want
		t.Errorf("delegation %v: the server was not told that none is wanted", o.Delegation)
	}
	for _, size := range []int{1, 1000, 4096, 70_001, 1 << 20} {
		data := testserver.Pattern(size)
		for at := 0; at < size; {
			w, err := n.Write(ctx, o.File, o.StateID, uint64(at), data[at:], wire.Unstable4)
			must(t, err)
			if at += w.Count; w.Count == 0 {
				t.Fatal("WRITE wrote nothing")
			}
		}
		_, err = n.Commit(ctx, o.File, 0, 0)
		must(t, err)
		got := make([]byte, size)
		for at, eof := 0, false; at < size; {
			var count int
			count, eof, err = n.Read(ctx, o.File, o.StateID, uint64(at), got[at:])
			if at += count; err != nil || count == 0 || eof != (at == size) {
				t.Fatalf("READ: %d of %d bytes, %v, %v", at, size, eof, err)
			}
		}
		if !bytes.Equal(got, data) {
			t.Fatalf("%d bytes read are not those written", size)
		}
		attr, err := n.Getattr(ctx, o.File, client.StatAttributes)
		if err != nil || attr.Type != wire.NF4Reg || attr.Size != uint64(size) || attr.Mode != 0o644 || attr.Links != 1 {
			t.Fatalf("%+v, %v", attr, err)
		}
	}
	must(t, n.Setattr(ctx, o.File, o.StateID, client.SizeAttribute(10)))
	if count, eof, err := n.Read(ctx, o.File, o.StateID, 5, make([]byte, 100)); count != 5 || !eof || err != nil {
		t.Errorf("READ of a truncated file: %d, %v, %v", count, eof, err)
	}
	must(t, n.CloseFile(ctx, o.File, o.StateID))
	if err := n.CloseFile(ctx, o.File, o.StateID); client.StatusOf(err) != wire.NFS4ErrBadStateID {
		t.Errorf("closed twice: %v", err)
	}
	must(t, n.Remove(ctx, root, "file"))
	if _, err := n.Walk(ctx, root, "file"); client.StatusOf(err) != wire.NFS4ErrNoEnt {
		t.Errorf("after REMOVE: %v", err)
	}
}

func checkNames4(t *testing.T, n client.NFS4, root client.Handle) {
	ctx := testserver.Within(t)
	dir, err := n.Mkdir(ctx, root, "dir", 0o755)
	must(t, err)
	deep := dir
	path := "dir"
	for i := range 20 { // takes more than one request to look up
		deep, err = n.Mkdir(ctx, deep, fmt.Sprint(i), 0o755)
		must(t, err)
		path += fmt.Sprint("/", i)
	}
	if found, err := n.Walk(ctx, root, path); err != nil || !bytes.Equal(found, deep) {
		t.Errorf("%x, %v", found, err)
	}
	var wanted []string
	var all sync.WaitGroup
	for i := range 1500 { // takes several requests to list
		name := fmt.Sprintf("a name of some length, number %04d", i)
		wanted = append(wanted, name)
		if i%100 == 0 {
			all.Wait()
		}
		all.Go(func() {
			o, err := n.Open(ctx, client.Open4{Dir: deep, Name: name, Owner: []byte(name), Access: wire.Open4ShareAccessWrite, Create: unchecked4})
			if err == nil {
				err = n.CloseFile(ctx, o.File, o.StateID)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	var names []string
	for e, err := range n.Readdir(ctx, deep, wire.Bits(wire.Fattr4Type, wire.Fattr4Size)) {
		must(t, err)
		if e.Attributes.Type != wire.NF4Reg || !e.Attributes.Given.Has(wire.Fattr4Size) {
			t.Errorf("%+v", e)
		}
		names = append(names, e.Name)
	}
	slices.Sort(names)
	if !slices.Equal(names, wanted) {
		t.Errorf("%d names, not %d", len(names), len(wanted))
	}
	must(t, n.Rename(ctx, deep, wanted[0], root, "renamed"))
	_, err = n.Walk(ctx, root, "renamed")
	must(t, err)
	must(t, n.Remove(ctx, root, "renamed"))
	if err := n.Remove(ctx, root, "dir"); client.StatusOf(err) != wire.NFS4ErrNotEmpty {
		t.Errorf("a directory that is not empty: %v", err)
	}
}

func checkLocks4(t *testing.T, n client.NFS4, root client.Handle) {
	ctx := testserver.Within(t)
	o, err := n.Open(ctx, client.Open4{Dir: root, Name: "locked", Owner: []byte("o"), Access: wire.Open4ShareAccessBoth, Create: unchecked4})
	must(t, err)
	first, err := n.Lock(ctx, o.File, o.StateID, []byte("first"), wire.WriteLt, client.Range4{Offset: 100, Length: 50})
	must(t, err)
	_, err = n.Lock(ctx, o.File, o.StateID, []byte("second"), wire.ReadLt, client.Range4{Length: wire.NFS4Maxfilelen})
	denied, ok := errors.AsType[*client.DeniedError](err)
	if !ok || denied.Holder != (client.Range4{Offset: 100, Length: 50}) || string(denied.Owner) != "first" || denied.ClientID != n.Session.ClientID() {
		t.Fatalf("%v", err)
	}
	if client.StatusOf(err) != wire.NFS4ErrDenied {
		t.Errorf("%v is no OpError", err)
	}
	first, err = n.LockMore(ctx, o.File, first, wire.WriteLt, client.Range4{Length: 10})
	must(t, err)
	_, err = n.Unlock(ctx, o.File, first, wire.WriteLt, client.Range4{Offset: 0, Length: wire.NFS4Maxfilelen})
	must(t, err)
	second, err := n.Lock(ctx, o.File, o.StateID, []byte("second"), wire.ReadLt, client.Range4{Length: wire.NFS4Maxfilelen})
	must(t, err)
	_, err = n.Unlock(ctx, o.File, second, wire.ReadLt, client.Range4{Length: wire.NFS4Maxfilelen})
	must(t, err)
	must(t, n.CloseFile(ctx, o.File, o.StateID))
	must(t, n.Remove(ctx, root, "locked"))
}

// If connections are lost during changes of names, each change is executed exactly once. A second
// execution would fail: a guarded create would find its own file, and a removal would find none.
func TestNFS4ExactlyOnce(t *testing.T) {
	server := testserver.Start(t)
	server.ServeNFS4(t, 0)
	s, err := client.DialSession(testserver.Within(t), client.SessionConfig{Target: server.Targets()["memory"], Connections: 2, Slots: 16})
	must(t, err)
	defer func() { must(t, s.Close()) }()
	n, ctx := s.NFS4(), testserver.Within(t)
	n.Patient = true // if a compound has lost its connections it may end with DELAY; the method then repeats it
	root, err := n.Walk(ctx, nil, "x")
	must(t, err)
	guarded := &wire.Createhow4{Mode: wire.Guarded4, Createattrs: client.ModeAttribute(0o644)}
	change := func(name string) error {
		o, err := n.Open(ctx, client.Open4{Dir: root, Name: name, Owner: []byte(name), Access: wire.Open4ShareAccessWrite, Create: guarded})
		if err != nil {
			return fmt.Errorf("OPEN: %w", err)
		}
		if err := n.CloseFile(ctx, o.File, o.StateID); err != nil {
			return fmt.Errorf("CLOSE: %w", err)
		}
		if err := n.Rename(ctx, root, name, root, name+"-renamed"); err != nil {
			return fmt.Errorf("RENAME: %w", err)
		}
		if err := n.Remove(ctx, root, name+"-renamed"); err != nil {
			return fmt.Errorf("REMOVE: %w", err)
		}
		return nil
	}
	const workers, rounds = 8, 60
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			for round := range rounds {
				if i == 0 && round%5 == 4 {
					server.Lose()
				}
				if err := change(fmt.Sprintf("file-%d", i)); err != nil {
					t.Errorf("worker %d, round %d: %v", i, round, err)
					return
				}
			}
		})
	}
	all.Wait()
}

// A session renews its lease, so the server keeps its opens. The server gives up the opens of a
// client that has crashed when its lease ends.
func TestNFS4LeaseIsKept(t *testing.T) {
	t.Parallel()
	server := testserver.Start(t)
	const lease = 3 * time.Second
	server.ServeNFS4(t, lease)
	dial := func() *client.Session {
		s, err := client.DialSession(testserver.Within(t), client.SessionConfig{Target: server.Targets()["tcp"]})
		must(t, err)
		return s
	}
	ctx := testserver.Within(t)
	s := dial()
	defer func() { must(t, s.Close()) }()
	if s.Lease() != lease {
		t.Fatalf("a lease of %v", s.Lease())
	}
	n := s.NFS4()
	root, err := n.Walk(ctx, nil, "x")
	must(t, err)
	open := func(n client.NFS4, owner string) (client.Opened4, error) {
		return n.Open(ctx, client.Open4{
			Dir: root, Name: "file", Owner: []byte(owner), Access: wire.Open4ShareAccessBoth, Deny: wire.Open4ShareDenyBoth, Create: unchecked4,
		})
	}
	o, err := open(n, "a")
	must(t, err)
	other := dial()
	// For two leases, another client tries to open the file and is refused.
	var got client.Opened4
	gets := func(n client.NFS4, owner string) func() bool {
		return func() bool {
			var err error
			got, err = open(n, owner)
			if client.StatusOf(err) != wire.NFS4ErrShareDenied {
				must(t, err)
			}
			return err == nil
		}
	}
	if await.Within(2*lease, gets(other.NFS4(), "b")) {
		t.Fatal("another client has got the file")
	}
	must(t, n.CloseFile(ctx, o.File, o.StateID))
	await.Until(t, "the file is free", gets(other.NFS4(), "b"))
	other.Abandon()
	// The other client has crashed, so the file is free when its lease has ended.
	await.Until(t, "the lease ends", gets(n, "a"))
	must(t, n.CloseFile(ctx, got.File, got.StateID))
}
