package server_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/server/admin"
	wire3 "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	nlm "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest/stalled"
)

// awaitCall waits until calls has an entry that waits for something, and returns it.
func (d *daemon) awaitCall(t *testing.T, waits string) (is admin.Call) {
	t.Helper()
	await(t, testContext(t), "calls shows what waits for "+waits, func() bool {
		for _, c := range asked[[]admin.Call](t, d, "calls") {
			if c.Waits == waits {
				is = c
				return true
			}
		}
		return false
	})
	return is
}

// openShared opens a file of the daemon by a session of its own. The result has the error of OPEN.
func (d *daemon) openShared(t *testing.T, name string, deny uint32) (n client.NFS4, o client.Opened4, err error) {
	t.Helper()
	ctx := testContext(t)
	n = d.session(t, "tcp", client.Callbacks{})
	dir, err := n.Walk(ctx, nil, "/")
	if err != nil {
		t.Fatal(err)
	}
	o, err = n.Open(ctx, client.Open4{
		Dir: dir, Name: name, Owner: []byte("opener"), Access: wire.Open4ShareAccessBoth, Deny: deny,
		Create: &wire.Createhow4{Mode: wire.Unchecked4, Createattrs: client.ModeAttribute(0o644)},
	})
	if err == nil {
		t.Cleanup(func() { _ = n.CloseFile(ctx, o.File, o.StateID) })
	}
	return n, o, err
}

// A client that waits for a lock, or for another client's share, is in the list of calls, with its file, although the daemon has answered it.
func TestCallsShowWhatWasAnswered(t *testing.T) {
	d := start(t, "rw,insecure,no_root_squash")
	ctx := testContext(t)
	all := client.Range4{Length: 1<<64 - 1}
	holder, waiter := d.open(t, "locked"), d.open(t, "locked")
	if _, err := holder.Lock(ctx, holder.File, holder.StateID, []byte("l"), wire.WriteLt, all); err != nil {
		t.Fatal(err)
	}
	if _, err := waiter.Lock(ctx, waiter.File, waiter.StateID, []byte("l"), wire.WritewLt, all); client.StatusOf(err) != wire.NFS4ErrDenied {
		t.Fatal(err)
	}
	is := d.awaitCall(t, "lock")
	if is.Operation != "LOCK" || is.File == nil || is.Path != filepath.Join(d.export, "locked") || is.By == nil || !is.Again {
		t.Errorf("the waiter for the lock: %+v", is)
	}
	if out := d.ask(t, "calls"); !strings.Contains(out, "lock of "+is.By.Address) {
		t.Errorf("the table of calls:\n%s", out)
	}

	if _, _, err := d.openShared(t, "shared", wire.Open4ShareDenyBoth); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.openShared(t, "shared", 0); client.StatusOf(err) != wire.NFS4ErrShareDenied {
		t.Fatal(err)
	}
	if is := d.awaitCall(t, "share"); is.Operation != "OPEN" || is.Transport != "tcp" || is.File == nil || is.Path != d.export || !is.Again {
		t.Errorf("the OPEN that a share denies: %+v", is)
	}
}

// So is a client that wants to deny accesses in the grace period, and no longer when it has ended.
func TestCallsShowWhatWaitsForTheGracePeriod(t *testing.T) {
	d := start(t, "rw,insecure,no_root_squash")
	d.open(t, "file")
	d.Kill()
	d = startOn(t, d.export, d.state, "rw,insecure,no_root_squash")
	if _, _, err := d.openShared(t, "new", wire.Open4ShareDenyBoth); client.StatusOf(err) != wire.NFS4ErrGrace {
		t.Fatal(err)
	}
	if is := d.awaitCall(t, "grace"); is.Operation != "OPEN" || is.Version != 4 || !is.Again {
		t.Errorf("the OPEN in the grace period: %+v", is)
	}
	d.ask(t, "grace", "end")
	for _, c := range asked[[]admin.Call](t, d, "calls") {
		if c.Waits == "grace" {
			t.Errorf("after the grace period: %+v", c)
		}
	}
}

// A host that was granted a lock of NFSv3 for which it waited, and does not answer the daemon's call, is in the list.
func TestCallsShowAHostThatDoesNotAnswer(t *testing.T) {
	d := start(t, "insecure")
	ctx := testContext(t)
	c, name, file := d.lockable(t)
	call := func(p nlm.Procedure, args interface{ Encode(*xdr.Writer) }) nlm.Stat4 {
		t.Helper()
		stat, err := callNLM(ctx, c, p, args)
		if err != nil {
			t.Fatal(err)
		}
		return stat
	}
	of := func(host string) nlm.Lock4 {
		return nlm.Lock4{CallerName: []byte(host), FileHandle: nlm.Object(file), OH: nlm.Object(host), SVID: 1}
	}
	first := nlm.LockArgs4{Exclusive: true, Lock: of("first")}
	if stat := call(nlm.ProcLock, &first); stat != nlm.Granted {
		t.Fatal(stat)
	}
	second := nlm.LockArgs4{Block: true, Exclusive: true, Lock: of("second")}
	if stat := call(nlm.ProcLock, &second); stat != nlm.Blocked {
		t.Fatal(stat)
	}
	if is := d.awaitCall(t, "lock"); is.Program != "nlm" || is.By == nil {
		t.Errorf("while the first has it: %+v", is)
	}
	unlock := nlm.UnlockArgs4{Lock: of("first")}
	if stat := call(nlm.ProcUnlock, &unlock); stat != nlm.Granted {
		t.Fatal(stat)
	}
	is := d.awaitCall(t, "callback")
	if is.File == nil || is.Path != name || is.Program != "nlm" {
		t.Errorf("when it is granted: %+v", is)
	}
}

// A call that waits for payload memory, because others that hang in a file system have it, is in the list, over both
// transports. When it has ended, it is not.
func TestCallsShowWhatWaitsForMemory(t *testing.T) {
	for _, transport := range []string{"tcp", "rdma"} {
		t.Run(transport, func(t *testing.T) {
			m := stalled.Mount(t)
			defer m.LetGo()
			config := filepath.Join(t.TempDir(), "nfsrdmad.toml")
			if err := os.WriteFile(config, []byte("rpcbind = false\n[memory]\nceiling = \"16M\"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			d := startOn(t, m.Dir, t.TempDir(), "rw,insecure,no_root_squash", "--config", config)
			ctx := testContext(t)
			c := d.dialBoth(t)[transport]
			root, err := c.Mount(ctx, "/")
			if err != nil {
				t.Fatal(err)
			}
			h, err := c.Create(ctx, root, "file", 0o600)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Write(ctx, h, 0, make([]byte, 1<<20), wire3.FileSync); err != nil {
				t.Fatal(err)
			}
			m.Stall()
			ended := make(chan error, 64)
			more := startWrites(c, h, 20, 1<<20, func(x *rpc.Exchange) { ended <- x.Err })
			is := d.awaitCall(t, "memory")
			if is.Operation != "WRITE" || is.Transport != transport || is.Again {
				t.Errorf("%+v", is)
			}
			m.LetGo()
			for range more {
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
			await(t, ctx, "no call is in progress", func() bool { return len(asked[[]admin.Call](t, d, "calls")) == 0 })
		})
	}
}
