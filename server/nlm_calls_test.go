package server_test

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	nlm "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
)

// lockable mounts the export, and makes a file there that every user can lock. It returns the file's path and handle.
func (d *daemon) lockable(t testing.TB) (c *servertest.Client, name string, file servertest.Handle) {
	t.Helper()
	c, root := d.mounted(t)
	name = filepath.Join(d.export, "file")
	if err := cmp.Or(os.WriteFile(name, nil, 0o600), os.Chmod(name, 0o666)); err != nil {
		t.Fatal(err)
	}
	file, err := c.Lookup(testContext(t), root, "file")
	if err != nil {
		t.Fatal(err)
	}
	return c, name, file
}

// callNLM makes a call of NLM whose result is a Res4.
func callNLM(ctx context.Context, c *servertest.Client, p nlm.Procedure, args interface{ Encode(*xdr.Writer) }) (nlm.Stat4, error) {
	var res nlm.Res4
	err := rpc.Do(ctx, c.Caller, &rpc.Exchange{
		Program: nlm.Program, Version: nlm.Version, Procedure: uint32(p), Cred: c.Cred,
		Args: args.Encode, MaxArgs: nlm.LockArgs4MaxSize, MaxResults: nlm.Res4MaxSize,
	}, func(d *xdr.Decoder) error {
		res.Decode(d)
		return d.Finish()
	})
	return res.Stat, err
}
