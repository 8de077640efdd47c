package server_test

import (
	"context"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/server"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire4 "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest/stalled"
)

// A client of 4.2 has locked a byte of a file in /hangs, and restarts. /hangs is a FUSE file system that
// hangs. The client gets a new session at once, and can use /works.
func TestHangingFUSEHoldsNoRestartedClient(t *testing.T) {
	if !stalled.Alone(t, 2) {
		return
	}
	m := stalled.Mount(t)
	hangs, err := local.New(local.Config{Root: m.Dir, Sync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hangs.Close() })
	if err := os.Chmod(m.Dir, 0o777); err != nil {
		t.Fatal(err)
	}
	works := memfs.New(memfs.Options{RootMode: 0o777})
	listen := []config.Listen{{Addr: netip.AddrPortFrom(ownLoopback(), 0)}}
	s, err := server.NewOver(&config.Config{TCP: listen, RDMA: listen},
		&export.Export{Name: "/hangs", FS: hangs, Options: export.Options{Squash: export.NoSquash}},
		&export.Export{Name: "/works", FS: works, Options: export.Options{Squash: export.NoSquash}})
	if err != nil {
		t.Fatal(err)
	}
	run(t, s)
	addr := s.TCPAddrs()[0]
	target := client.Target{Transport: client.TCP, Host: addr.Addr().String(), Port: int(addr.Port()), Cred: client.Self()}
	dial := func(verifier byte, limit time.Duration) (*client.Session, error) {
		ctx, cancel := context.WithTimeout(testContext(t), limit)
		defer cancel()
		return client.DialSession(ctx, client.SessionConfig{Target: target, Owner: []byte("machine"), Verifier: wire4.Verifier4{verifier}})
	}
	first, err := dial(1, 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	n, ctx := first.NFS4(), testContext(t)
	root, err := n.Walk(ctx, nil, "hangs")
	if err != nil {
		t.Fatal(err)
	}
	made := &wire4.Createhow4{Mode: wire4.Unchecked4, Createattrs: client.ModeAttribute(0o644)}
	o, err := n.Open(ctx, client.Open4{Dir: root, Name: "file", Owner: []byte("o"), Access: wire4.Open4ShareAccessBoth, Create: made})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Lock(ctx, o.File, o.StateID, []byte("l"), wire4.WriteLt, client.Range4{Length: 1}); err != nil {
		t.Fatal(err)
	}
	m.StallAfter(0)
	second, err := dial(2, 30*time.Second)
	if err != nil {
		t.Errorf("after the client's restart there is no session: %v", err)
	} else if _, err := second.NFS4().Walk(ctx, nil, "works"); err != nil {
		t.Error(err)
	}
	m.LetGo()
	third, err := dial(2, 30*time.Second)
	if err != nil {
		t.Errorf("when the file system has gone on: %v", err)
	} else if _, err := third.NFS4().Walk(ctx, nil, "works"); err != nil {
		t.Error(err)
	}
}
