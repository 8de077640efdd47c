package server_test

import (
	"context"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	wire4 "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest/stalled"
)

// If a file system below an export does not answer, clients get NFS3ERR_JUKEBOX or NFS4ERR_DELAY
// for it. Everything else continues to work, also mounts that are added meanwhile.
func TestMountThatStalls(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	m := stalled.Mount(t)
	defer m.LetGo()
	const name = "hangs"
	base := t.TempDir()
	at, _ := mountPoint(t, base, name)
	mount(t, m.Dir, at, "", unix.MS_BIND)
	d := startOn(t, base, t.TempDir(), "crossmnt,insecure,no_root_squash")
	ctx := testContext(t)
	clients := d.dialBoth(t)
	session, err := client.DialSession(ctx, client.SessionConfig{
		Target: client.Target{Transport: client.TCP, Host: d.tcp.Addr().String(), Port: int(d.tcp.Port()), Cred: client.Self()},
	})
	if err != nil {
		t.Fatal(err)
	}
	four := session.NFS4()
	root, err := clients["tcp"].Mount(ctx, "/")
	if err != nil {
		t.Fatal(err)
	}
	lists := func(what string) {
		t.Helper()
		h, err := four.Walk(ctx, nil, "/")
		if err != nil {
			t.Fatal(err)
		}
		listed := false
		for e, err := range four.Readdir(ctx, h, identity) {
			if err != nil {
				t.Errorf("%s: READDIR: %v", what, err)
			}
			if e.Name == name {
				listed = e.Attributes.Error == wire4.NFS4ErrDelay && e.Attributes.Handle == nil
			}
		}
		if !listed {
			t.Errorf("%s: %s is not listed as what hangs", what, name)
		}
	}
	m.Stall()
	works := func(what string) {
		t.Helper()
		for transport, c := range clients {
			if _, err := c.Lookup(ctx, root, name); !is3(err, wire.NFS3ErrJukebox) {
				t.Errorf("%s, %s: LOOKUP of what hangs: %v", what, transport, err)
			}
			if _, err := c.Create(ctx, root, what+transport, 0o644); err != nil {
				t.Errorf("%s, %s: %v", what, transport, err)
			}
		}
		if _, err := four.Walk(ctx, nil, "/"+name); client.StatusOf(err) != wire4.NFS4ErrDelay {
			t.Errorf("%s: LOOKUP of what hangs: %v", what, err)
		}
		lists(what)
		later, _ := mountPoint(t, base, "later "+what)
		mount(t, "later", later, "tmpfs", 0)
		if _, err := clients["rdma"].Lookup(ctx, root, "later "+what); err != nil {
			t.Errorf("%s: a mount that came meanwhile: %v", what, err)
		}
	}
	works("while it is opened")
	m.LetGo()
	var hanging servertest.Handle
	await(t, ctx, "it is served", func() bool {
		hanging, err = clients["tcp"].Lookup(ctx, root, name)
		return err == nil
	})
	if _, err := clients["tcp"].Create(ctx, hanging, "file", 0o644); err != nil {
		t.Fatal(err)
	}
	m.Stall()
	hangs(t, d, m, "tcp", hanging, 30)
	m.AwaitHanging(1)
	for transport, c := range clients {
		for range 50 { // more calls than the server allows to wait for one file system
			if _, err := c.Lookup(ctx, root, name); err != nil {
				t.Fatalf("%s: LOOKUP of what is open and hangs: %v", transport, err)
			}
		}
		if _, err := c.Create(ctx, root, "while it is open "+transport, 0o644); err != nil {
			t.Errorf("%s: %v", transport, err)
		}
	}
	lists("while it is open")
	short, cancel := context.WithCancel(ctx)
	hung := make(chan error, 40)
	for range cap(hung) {
		go func() {
			h, err := four.Walk(short, nil, "/"+name)
			if err == nil {
				_, err = four.Getattr(short, h, identity)
			}
			hung <- err
		}()
	}
	m.AwaitHanging(2)
	if _, err := clients["tcp"].Create(ctx, root, "while many hang", 0o644); err != nil {
		t.Error(err)
	}
	cancel()
	m.LetGo()
	for range cap(hung) {
		<-hung
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	ends(t, d.Process, syscall.SIGTERM, inOrder)
}
