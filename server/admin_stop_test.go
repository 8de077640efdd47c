package server_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/server/admin"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	wire4 "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest/stalled"
)

// verify writes to a file and reads it again until ctx ends, and reports what is not as written. rounds counts.
func verify(t *testing.T, ctx context.Context, c *servertest.Client, export string, rounds *atomic.Int64) {
	h, err := c.Mount(ctx, export)
	if err == nil {
		h, err = c.Create(ctx, h, fmt.Sprint("file", rounds.Add(1)), 0o600)
	}
	if err != nil {
		t.Errorf("%s: %v", export, err)
		return
	}
	for i := 0; ctx.Err() == nil; i++ {
		data := bytes.Repeat([]byte{byte(i)}, 64<<10)
		if _, err := c.Write(context.WithoutCancel(ctx), h, 0, data, wire.Unstable); err != nil {
			t.Errorf("%s: write: %v", export, err)
			return
		}
		got := make([]byte, len(data))
		if n, err := c.Read(context.WithoutCancel(ctx), h, 0, got); err != nil || n != len(data) || !bytes.Equal(got, data) {
			t.Errorf("%s: read of %d bytes: %v, or other data", export, n, err)
			return
		}
		rounds.Add(1)
	}
}

// The disk of an export that was stopped can be unmounted at once, while clients read and write two other exports, and
// although a client had files open and locked on it. The client gets errors that say so. A reload does not serve it
// again. When the disk is mounted and the export started again, handles of before are good.
func TestStoppedExportCanBeUnmounted(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	base := t.TempDir()
	disk, _ := mountPoint(t, base, "disk")
	image := filepath.Join(t.TempDir(), "image")
	one := twin{kind: "ext4", image: image}
	if err := cmp.Or(os.WriteFile(image, nil, 0o600), os.Truncate(image, 32<<20)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext4", "-q", image).CombinedOutput(); err != nil {
		t.Skipf("no ext4 here: %v: %s", err, out)
	}
	one.mount(t, disk)
	exports := []string{disk + " /disk rw", t.TempDir() + " /one rw", t.TempDir() + " /two rw"}
	d := startReloading(t, exports...)
	ctx := testContext(t)
	clients := d.dialBoth(t)

	load, endLoad := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer endLoad()
	var rounds atomic.Int64
	for _, transport := range []string{"tcp", "rdma"} {
		c := d.dialBoth(t)[transport]
		for _, export := range []string{"/one", "/two"} {
			running.Go(func() { verify(t, load, c, export, &rounds) })
		}
	}
	root, err := clients["tcp"].Mount(ctx, "/disk")
	if err != nil {
		t.Fatal(err)
	}
	file, err := clients["tcp"].Create(ctx, root, "file", 0o600)
	if err != nil {
		t.Fatal(err)
	}
	n := d.session(t, "tcp", client.Callbacks{})
	dir, err := n.Walk(ctx, nil, "/disk")
	if err != nil {
		t.Fatal(err)
	}
	o, err := n.Open(ctx, client.Open4{Dir: dir, Name: "file", Owner: []byte("o"), Access: wire4.Open4ShareAccessBoth})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Lock(ctx, o.File, o.StateID, []byte("o"), wire4.WriteLt, client.Range4{Length: 10}); err != nil {
		t.Fatal(err)
	}

	order := func(args ...string) (out, failed string) {
		return command(t, append(append([]string{"exports"}, args...), "--socket", adminSocketOf(d))...)
	}
	if out, failed := order("stop", "/disk"); failed != "" || !strings.Contains(out, disk) {
		t.Fatalf("stop: %q, %q", out, failed)
	}
	if err := unix.Unmount(disk, 0); err != nil {
		t.Errorf("umount after the stop: %v", err)
	}
	if _, err := clients["rdma"].GetAttr(ctx, file); !stale(err) {
		t.Errorf("GETATTR of NFSv3: %v", err)
	}
	if err := n.CloseFile(ctx, o.File, o.StateID); client.StatusOf(err) != wire4.NFS4ErrStale {
		t.Errorf("CLOSE of NFSv4: %v", err)
	}
	d.reload("configuration read again", exports...)
	if _, err := clients["tcp"].GetAttr(ctx, file); !stale(err) {
		t.Errorf("after a reload: %v", err)
	}
	state := ""
	for _, e := range asked[[]admin.Export](t, &daemon{state: filepath.Dir(adminSocketOf(d))}, "exports") {
		if e.Name == "/disk" {
			state = e.State
		}
	}
	if state != "stopped" {
		t.Errorf("exports says that it is %q", state)
	}

	one.mount(t, disk)
	if out, failed := order("start", "/disk"); failed != "" {
		t.Fatalf("start: %q, %q", out, failed)
	}
	for name, c := range clients {
		if _, err := c.GetAttr(ctx, file); err != nil {
			t.Errorf("%s: a handle of before: %v", name, err)
		}
	}
	before := rounds.Load()
	await(t, ctx, "the load goes on", func() bool { return rounds.Load() >= before+8 })
}

// The command says which exports still use the mount, which names it does not know, and what keeps the file system in
// use; it starts an export again that was not opened yet, and one that is served already.
func TestStopSaysWhatKeepsTheMountInUse(t *testing.T) {
	dir := t.TempDir()
	inner := filepath.Join(dir, "inner")
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	m := stalled.Mount(t)
	defer m.LetGo()
	gone := filepath.Join(dir, "gone")
	d := startReloading(t, dir+" /outer rw", inner+" /inner rw", m.Dir+" /hangs rw", gone+" /gone rw")
	order := func(args ...string) string {
		out, failed := command(t, append(append([]string{"exports"}, args...), "--socket", adminSocketOf(d))...)
		return out + failed
	}
	for _, c := range []struct {
		order, name string
		says        string
	}{
		{"stop", "/none", "there is no export"},
		{"start", "/none", "there is no export"},
		{"stop", "/inner", "/outer"},
		{"stop", "/inner", "/outer"}, // once more
		{"start", "/outer", "served"},
		{"start", "/inner", "served"},
		{"start", "/gone", "is not there"},
		{"stop", "/gone", "stopped"},
		{"start", "/gone", "is not there"},
	} {
		if said := order(c.order, c.name); !strings.Contains(said, c.says) {
			t.Errorf("%s %s says %q", c.order, c.name, said)
		}
	}
	h, err := d.dialBoth(t)["tcp"].Mount(testContext(t), "/hangs")
	if err != nil {
		t.Fatal(err)
	}
	m.Stall()
	hangs(t, d.daemon, m, "tcp", h, 1)
	m.AwaitHanging(1)
	ended := make(chan string, 1)
	go func() { ended <- order("stop", "/hangs") }()
	await(t, testContext(t), "the stop of /hangs is in the log", func() bool {
		return strings.Contains(d.Output(), `an export was stopped by order of the administrator	{"export": "/hangs"`)
	})
	select {
	case said := <-ended:
		t.Errorf("the command ends while a call hangs: %q", said)
	default:
	}
	m.LetGo()
	if said := <-ended; !strings.Contains(said, "stopped") || strings.Contains(said, "still") {
		t.Errorf("when the call has ended: %q", said)
	}
	ends(t, d.Process, syscall.SIGTERM, inOrder)
}

// A stop does not end while a call hangs in a mount below the export, nor does a second stop after the first gave up.
func TestStopWaitsForMountsBelow(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	m := stalled.Mount(t)
	defer m.LetGo()
	base := t.TempDir()
	at, _ := mountPoint(t, base, "hangs")
	mount(t, m.Dir, at, "", unix.MS_BIND)
	d := startOn(t, base, t.TempDir(), "crossmnt,insecure,no_root_squash")
	ctx := testContext(t)
	c, root := d.mounted(t)
	h, err := c.Lookup(ctx, root, "hangs")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.GetAttr(ctx, h); err != nil {
		t.Fatal(err)
	}
	m.Stall()
	hangs(t, d, m, "tcp", h, 1)
	m.AwaitHanging(1)
	stop := func(ctx context.Context) error {
		body, err := admin.NewCaller(filepath.Join(d.state, "admin.sock")).Ask(ctx, "POST", "/exports/stop", url.Values{"name": {"/"}})
		if err == nil {
			body.Close()
		}
		return err
	}
	for _, which := range []string{"first", "second"} {
		short, cancel := context.WithTimeout(ctx, time.Second)
		if err := stop(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the %s stop, while a call hangs: %v", which, err)
		}
		cancel()
	}
	m.LetGo()
	if err := stop(ctx); err != nil {
		t.Error(err)
	}
	ends(t, d.Process, syscall.SIGTERM, inOrder)
}
