package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/testserver"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// overAll runs f over every transport.
func overAll(t *testing.T, f func(t *testing.T, c *client.Conn, root client.Handle)) {
	s := testserver.Start(t)
	for name, target := range s.Targets() {
		t.Run(name, func(t *testing.T) {
			c := testserver.Dial(t, target)
			root, err := c.MountRoot(testserver.Within(t), "/x", 0)
			if err != nil {
				t.Fatal(err)
			}
			f(t, c, root)
		})
	}
}

var unchecked = nfs3wire.CreateHow3{ObjAttributes: nfs3wire.Sattr3{Mode: nfs3wire.SetMode3{SetIt: true, Mode: 0o640}}}

func TestNamesAndAttributes(t *testing.T) {
	overAll(t, func(t *testing.T, c *client.Conn, root client.Handle) {
		ctx, n := testserver.Within(t), c.NFS3()
		dir, err := n.Mkdir(ctx, root, "d-"+string(c.Target().Transport)+fmt.Sprint(c.Peer().Port(), c.Target().RDMAVersion), nfs3wire.Sattr3{Mode: nfs3wire.SetMode3{SetIt: true, Mode: 0o755}})
		must(t, err)
		file, attr, err := n.Create(ctx, dir, "file", unchecked)
		must(t, err)
		if attr == nil || attr.Mode != 0o640 {
			t.Errorf("created with %+v", attr)
		}
		found, _, err := n.Lookup(ctx, dir, "file")
		must(t, err)
		if !bytes.Equal(found, file) {
			t.Errorf("LOOKUP gives %x, CREATE gave %x", found, file)
		}
		must(t, n.Setattr(ctx, file, nfs3wire.Sattr3{Size: nfs3wire.SetSize3{SetIt: true, Size: 12345}}))
		got, err := n.Getattr(ctx, file)
		must(t, err)
		if got.Size != 12345 || got.Type != attr.Type {
			t.Errorf("attributes are %+v", got)
		}
		rights, err := n.Access(ctx, file, nfs3wire.Access3Read|nfs3wire.Access3Modify)
		must(t, err)
		if rights != nfs3wire.Access3Read|nfs3wire.Access3Modify {
			t.Errorf("rights %#x", rights)
		}
		must(t, n.Symlink(ctx, dir, "link", "file"))
		link, err := n.Walk(ctx, dir, "./link")
		must(t, err)
		if text, err := n.Readlink(ctx, link); err != nil || text != "file" {
			t.Errorf("READLINK gives %q: %v", text, err)
		}
		must(t, n.Link(ctx, file, dir, "second"))
		must(t, n.Rename(ctx, dir, "second", dir, "third"))
		info, err := n.Fsinfo(ctx, root)
		must(t, err)
		if info.ReadMax == 0 || info.WriteMax == 0 {
			t.Errorf("FSINFO gives %+v", info)
		}
		_, err = n.Fsstat(ctx, root)
		must(t, err)
		conf, err := n.Pathconf(ctx, root)
		must(t, err)
		if conf.NameMax == 0 {
			t.Errorf("PATHCONF gives %+v", conf)
		}
		for _, name := range []string{"file", "link", "third"} {
			must(t, n.Remove(ctx, dir, name))
		}
		err = n.Remove(ctx, dir, "file")
		if s, ok := errors.AsType[*client.StatusError](err); !ok || s.Status != nfs3wire.NFS3ErrNoEnt {
			t.Errorf("second REMOVE: %v", err)
		}
		_, err = n.Readlink(ctx, dir)
		if s, ok := errors.AsType[*client.StatusError](err); !ok || s.Status != nfs3wire.NFS3ErrInvalid {
			t.Errorf("READLINK of a directory: %v", err)
		}
	})
}

// Read and Write transfer any number of bytes to and from the caller's own memory. Read changes
// nothing beyond the data that the server returned.
func TestReadAndWrite(t *testing.T) {
	overAll(t, func(t *testing.T, c *client.Conn, root client.Handle) {
		ctx, n := testserver.Within(t), c.NFS3()
		name := fmt.Sprint("data-", c.Peer().Port())
		file, _, err := n.Create(ctx, root, name, unchecked)
		must(t, err)
		for _, size := range []int{1, 3, 4, 5, 1000, 4093, 4096, 32<<10 + 1, 300_001, 1 << 20} {
			data := testserver.Pattern(size)
			w, err := n.Write(ctx, file, 10, data, nfs3wire.Unstable)
			must(t, err)
			if w.Count != size {
				t.Fatalf("WRITE of %d bytes wrote %d", size, w.Count)
			}
			verf, err := n.Commit(ctx, file, 0, 0)
			must(t, err)
			if verf != w.Verifier {
				t.Errorf("verifier %x became %x", w.Verifier, verf)
			}
			got := bytes.Repeat([]byte{0xa5}, size+8)
			count, _, err := n.Read(ctx, file, 10, got[:size])
			must(t, err)
			if count != size || !bytes.Equal(got[:size], data) {
				t.Errorf("READ of %d bytes gives %d, or others", size, count)
			}
			if !bytes.Equal(got[size:], bytes.Repeat([]byte{0xa5}, 8)) {
				t.Errorf("READ of %d bytes wrote beyond them", size)
			}
		}
		// Beyond the end: fewer bytes, and eof.
		got := make([]byte, 64<<10)
		count, eof, err := n.Read(ctx, file, 10+1<<20-100, got)
		must(t, err)
		if count != 100 || !eof {
			t.Errorf("READ over the end gives %d bytes, eof %v", count, eof)
		}
		if count, eof, err = n.Read(ctx, file, 1<<30, got); err != nil || count != 0 || !eof {
			t.Errorf("READ beyond the end gives %d bytes, eof %v: %v", count, eof, err)
		}
		must(t, n.Remove(ctx, root, name))
	})
}

func TestConcurrentReads(t *testing.T) {
	overAll(t, func(t *testing.T, c *client.Conn, root client.Handle) {
		ctx, n := testserver.Within(t), c.NFS3()
		name := fmt.Sprint("many-", c.Peer().Port())
		file, _, err := n.Create(ctx, root, name, unchecked)
		must(t, err)
		data := testserver.Pattern(1 << 20)
		_, err = n.Write(ctx, file, 0, data, nfs3wire.FileSync)
		must(t, err)
		var wg sync.WaitGroup
		for g := range 16 {
			wg.Go(func() {
				size := 1 << (4 + g)
				got := make([]byte, size)
				for i := range 20 {
					at := i * 4096 % (len(data) - size + 1)
					count, _, err := n.Read(ctx, file, uint64(at), got)
					if err != nil || count != size || !bytes.Equal(got, data[at:at+size]) {
						t.Errorf("READ of %d at %d: %d bytes, or others: %v", size, at, count, err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

// A listing by READDIR or READDIRPLUS continues over many replies. Over RDMA the replies come in
// Reply chunks.
func TestListings(t *testing.T) {
	const files = 800
	overAll(t, func(t *testing.T, c *client.Conn, root client.Handle) {
		ctx, n := testserver.Within(t), c.NFS3()
		dir, err := n.Mkdir(ctx, root, fmt.Sprint("list-", c.Peer().Port(), c.Target().RDMAVersion), nfs3wire.Sattr3{Mode: nfs3wire.SetMode3{SetIt: true, Mode: 0o755}})
		must(t, err)
		want := map[string]client.Handle{}
		for i := range files {
			name := fmt.Sprintf("a-name-that-takes-some-room-in-a-reply-%04d", i)
			h, _, err := n.Create(ctx, dir, name, unchecked)
			must(t, err)
			want[name] = h
		}
		var plain, plus []string
		for e, err := range n.Readdir(ctx, dir) {
			must(t, err)
			plain = append(plain, e.Name)
		}
		for e, err := range n.ReaddirPlus(ctx, dir) {
			must(t, err)
			plus = append(plus, e.Name)
			if h := want[e.Name]; h != nil && (e.Attr == nil || !bytes.Equal(e.Handle, h)) {
				t.Errorf("%s has handle %x and attributes %v", e.Name, e.Handle, e.Attr)
			}
		}
		if !slices.Equal(plain, plus) {
			t.Errorf("READDIR and READDIRPLUS differ: %d and %d names", len(plain), len(plus))
		}
		for _, name := range plain {
			delete(want, name)
		}
		if len(want) > 0 || len(plain) < files || len(plain) > files+2 {
			t.Errorf("%d names listed, %d missing", len(plain), len(want))
		}
		for range n.ReaddirPlus(ctx, dir) {
			break // the caller may stop a listing early
		}
	})
}

func TestExportsAndMount(t *testing.T) {
	s := testserver.Start(t)
	c := testserver.Dial(t, s.Targets()["tcp"])
	all, err := c.Mount3().Exports(testserver.Within(t))
	must(t, err)
	if len(all) != 1 || all[0].Path != "/x" {
		t.Errorf("exports are %v", all)
	}
	_, flavors, err := c.Mount3().Mount(testserver.Within(t), "/x")
	must(t, err)
	if !slices.Contains(flavors, rpc.AuthSys) {
		t.Errorf("flavors are %v", flavors)
	}
	_, _, err = c.Mount3().Mount(testserver.Within(t), "/elsewhere")
	if m, ok := errors.AsType[*client.MountError](err); !ok || m.Status != mount3wire.ErrNoEnt && m.Status != mount3wire.ErrAccess {
		t.Errorf("mount of what is not exported: %v", err)
	}
	must(t, c.Mount3().Unmount(testserver.Within(t), "/x"))
	if _, err := c.MountRoot(testserver.Within(t), "/x", int(s.TCP.Port())); err != nil {
		t.Errorf("mount by a port: %v", err)
	}
}

// MountRoot leaves no entry in the server's list of mounts, which would name this client for ever.
func TestMountRootTellsOfItsEnd(t *testing.T) {
	s := testserver.Start(t)
	c := testserver.Dial(t, s.Targets()["tcp"])
	mounted := func() (n int) {
		x := &rpc.Exchange{
			Program: mount3wire.Program, Version: mount3wire.Version, Procedure: uint32(mount3wire.ProcDump),
			Binding: &nfs.BindingMount3.Procedures[mount3wire.ProcDump],
		}
		must(t, rpc.Do(testserver.Within(t), c.Bare(), x, func(d *xdr.Decoder) error {
			var all mount3wire.MountList
			all.Decode(d)
			for m := new(mount3wire.Mount); all.Next(m); {
				n++
			}
			return d.Err()
		}))
		return n
	}
	_, _, err := c.Mount3().Mount(testserver.Within(t), "/x")
	must(t, err)
	if n := mounted(); n != 1 {
		t.Fatalf("%d entries after a mount", n)
	}
	must(t, c.Mount3().Unmount(testserver.Within(t), "/x"))
	_, err = c.MountRoot(testserver.Within(t), "/x", int(s.TCP.Port()))
	must(t, err)
	if n := mounted(); n != 0 {
		t.Errorf("%d entries after MountRoot", n)
	}
}

// A call whose context has ended returns. The connection still works.
func TestContext(t *testing.T) {
	overAll(t, func(t *testing.T, c *client.Conn, root client.Handle) {
		ended, cancel := context.WithCancelCause(t.Context())
		why := errors.New("no more")
		cancel(why)
		n := c.NFS3()
		// GETATTR may succeed, if its reply comes before the client checks the context.
		if _, err := n.Getattr(ended, root); err != nil && !errors.Is(err, why) {
			t.Errorf("GETATTR after the end: %v", err)
		}
		_, err := n.Getattr(testserver.Within(t), root)
		must(t, err)
	})
}
