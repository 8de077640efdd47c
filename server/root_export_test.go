package server_test

import (
	"fmt"
	"regexp"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
)

// The printed command mounts by version 4, which mount tries first, also an export that version 4 knows by
// another name (fsid=0). The line that says what is served has both names.
func TestMountCommandOfARootExport(t *testing.T) {
	ctx := testContext(t)
	ip := ownLoopback()
	tcp := servertest.FreePort(t, ip)
	p := nfsrdmad(t, "serve", "--show-mounts", "--state-dir", t.TempDir(), "--rdma", "none", "--tcp", fmt.Sprintf(":%d", tcp.Port()),
		"--export", t.TempDir()+":/exports,insecure,no_root_squash,fsid=0")
	p.AwaitLine("serving")
	says(t, p, "serving", "/exports (version 4: /) rw")
	shown := regexp.MustCompile(`mount -t nfs .*127\.0\.0\.1:(\S+) /mnt`).FindStringSubmatch(p.Output())
	if shown == nil {
		t.Fatal(p.Output())
	}
	s, err := client.DialSession(ctx, client.SessionConfig{
		Target: client.Target{Host: "127.0.0.1", Port: int(tcp.Port()), Transport: client.TCP, Cred: client.Self()},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.NFS4().Walk(ctx, nil, shown[1]); err != nil {
		t.Errorf("%s: %v", shown[0], err)
	}
	p.Signal(syscall.SIGTERM)
	p.Wait()
}
