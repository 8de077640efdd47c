package server_test

import (
	"cmp"
	"os"
	"path/filepath"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/server/admin"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	nlm "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
)

// A release of a lock of NFSv3, which opens nothing, finds the file by a symbolic link, and says that the host is not told.
func TestReleaseOfALockOfNFSv3(t *testing.T) {
	d := start(t, "insecure")
	ctx := testContext(t)
	c, err := servertest.DialTCP(ctx, d.tcp)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	root, err := c.Mount(ctx, "/")
	if err != nil {
		t.Fatal(err)
	}
	name, link := filepath.Join(d.export, "file"), filepath.Join(t.TempDir(), "link")
	if err := cmp.Or(os.WriteFile(name, nil, 0o600), os.Chmod(name, 0o666), os.Symlink(name, link)); err != nil {
		t.Fatal(err)
	}
	file, err := c.Lookup(ctx, root, "file")
	if err != nil {
		t.Fatal(err)
	}
	args := nlm.LockArgs4{Exclusive: true, Lock: nlm.Lock4{CallerName: []byte("a"), FileHandle: nlm.Object(file), SVID: 1}}
	var res nlm.Res4
	if err := rpc.Do(ctx, c.Caller, &rpc.Exchange{
		Program: nlm.Program, Version: nlm.Version, Procedure: uint32(nlm.ProcLock), Cred: c.Cred,
		Args: args.Encode, MaxArgs: nlm.LockArgs4MaxSize, MaxResults: nlm.Res4MaxSize,
	}, func(d *xdr.Decoder) error {
		res.Decode(d)
		return d.Finish()
	}); err != nil || res.Stat != nlm.Granted {
		t.Fatal(res.Stat, err)
	}
	taken := asked[admin.Taken](t, d, "release", "--file", link)
	if taken.Opens != 1 || len(taken.Clients) != 1 || len(taken.Untold) != 1 || taken.Untold[0] != taken.Clients[0] {
		t.Errorf("release: %+v", taken)
	}
	if locks := asked[[]admin.Lock](t, d, "locks"); len(locks) != 0 {
		t.Errorf("locks afterwards: %+v", locks)
	}
}
