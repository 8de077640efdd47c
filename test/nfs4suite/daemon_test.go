//go:build interop

package nfs4suite

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// program is the path of the daemon, built from the tree.
var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "nfsrdmad-suite-")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "nfsrdmad")
	build := exec.Command("go", "build", "-o", program, "./cmd/nfsrdmad")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the daemon: %v\n%s", err, out)
		os.Exit(1)
	}
	further["daemon"] = func(t *testing.T) *nfs4test.Site {
		return nfs4test.StartDaemon(t, nfs4test.DaemonConfig{Program: program, Directory: exported(t)}).Site
	}
	// In make test, the tests of package client show that sessions work over version 2 of RPC-over-RDMA.
	if os.Getenv("NFSRDMAD_TEST_ALL") != "" {
		further["daemon, version 2"] = overVersion2
	}
	status := m.Run()
	os.RemoveAll(dir)
	os.Exit(status)
}

func overVersion2(t *testing.T) *nfs4test.Site {
	return nfs4test.StartDaemon(t, nfs4test.DaemonConfig{Program: program, Directory: exported(t), Version2: true}).Site
}

// The daemon serves 1,000 clients with open files, and 1,000 more when the leases of the first
// have ended.
func TestDaemonTakesACrowd(t *testing.T) {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil || limit.Max < 20000 {
		t.Skip("there may be too few open files")
	}
	d := nfs4test.StartDaemon(t, nfs4test.DaemonConfig{Program: program, Directory: exported(t), NFS: `lease_time = "5s"`})
	crowd(t, d.Site, "first", 500)
	time.Sleep(6 * time.Second) // a real sleep, because the daemon has its own clock
	crowd(t, d.Site, "second", 500)
}

// After the daemon was killed and started again, its clients can reclaim their state. Until then
// the daemon grants nothing that conflicts with it.
func TestDaemonIsKilled(t *testing.T) {
	cfg := nfs4test.DaemonConfig{Program: program, Directory: exported(t), State: filepath.Join(t.TempDir(), "state"), NFS: `lease_time = "20s"`}
	first := nfs4test.StartDaemon(t, cfg)
	s := newSession(t, first.Site, 1, "client")
	s.makeFile("file")
	o := s.open(openArgs("file", "owner", both, write))
	id := s.lock(&o, "locker", wire.WriteLt, 0, 10)
	first.Kill()

	second := nfs4test.StartDaemon(t, cfg)
	p := second.Peer(1)
	is(t, "SEQUENCE of the life before", s.over(p).do().Status, wire.NFS4ErrBadSession)
	stranger := newSession(t, second.Site, 1, "stranger")
	stranger.refused("a stranger's OPEN", wire.NFS4ErrGrace, openArgs("file", "owner", read, 0))
	stranger.want("what waits for nobody", ok, putFH(o.fh), readOp(bypass, 0, 1), getattr(wire.Fattr4Size))
	s = sessionOf(p, createArgs(exchanged(p, "client", 1).Clientid, 1))
	s.want("a stateid of the life before", wire.NFS4ErrBadStateID, putFH(o.fh), readOp(o.Stateid, 0, 1))
	s.want("TEST_STATEID", ok, op(wire.OpTestStateID, testArgs(o.Stateid, id)))
	r := s.must("CLAIM_PREVIOUS", putFH(o.fh), open(claiming(openArgs("", "owner", both, write), wire.ClaimPrevious)))
	claimed := s.openRes(&r[1])
	l := lockNew(claimed.Stateid, "locker", wire.WriteLt, 0, 10)
	l.Args.(*wire.Lock4Args).Reclaim = true
	s.want("LOCK that claims", ok, putFH(o.fh), l)
	s.want("RECLAIM_COMPLETE", ok, op(wire.OpReclaimComplete, &wire.ReclaimComplete4Args{}))
	await.Until(t, "grace ends when all are back", func() bool {
		return stranger.do(putRoot, open(openArgs("file", "owner", write, 0))).Status == wire.NFS4ErrShareDenied
	})
	stranger.want("LOCKT of what was claimed", wire.NFS4ErrDenied, putFH(o.fh), lockTest("l", wire.ReadLt, 0, 1))
}
