package server_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest/stalled"
)

// Clients read while the configuration is reloaded many times, and disks hang, are missing, come back
// and are exchanged. Exports lie in one another and in mounts of one another, and every sixth
// configuration is wrong. No client reads what it may not, and none loses the export that stays.
func TestReloadsWhileDisksChange(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	rounds := 25
	if os.Getenv("NFSRDMAD_TEST_ALL") != "" {
		rounds = 1000
	}
	m := stalled.Mount(t)
	defer m.LetGo()
	base := t.TempDir()
	put := func(text string, dir ...string) string {
		at, _ := mountPoint(t, dir...)
		if err := os.WriteFile(filepath.Join(at, "file"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return at
	}
	keep, srv := put("keep", base, "keep"), put("srv", base, "srv")
	in, a, b := put("in", keep, "in"), put("a", base, "a"), put("b", base, "b")
	disk, _ := mountPoint(t, srv, "disk")
	t.Cleanup(func() {
		for unix.Unmount(disk, unix.MNT_DETACH) == nil {
		}
	})
	x := &crossing{t: t, base: srv}
	t.Cleanup(func() {
		if t.Failed() {
			x.Signal(syscall.SIGQUIT)
			x.Process.Wait()
			t.Log(x.Output())
		}
	})
	const strict = " clients=192.0.2.1/32"
	x.reloading = startReloading(t, keep+" /keep rw", srv+" /srv crossmnt", a+" /a rw")
	ctx, end := context.WithTimeout(context.Background(), time.Duration(rounds)*30*time.Second)
	defer end()

	// may has, for each export, the contents that a client may read there. The content of each file is
	// the name of its directory.
	may := map[string]string{"/keep": "keep", "/keep/in": "in", "/srv": "srv", "/srv/disk": "disk", "/a": "a b", "/b": "b"}
	var done atomic.Bool
	var reads, further atomic.Int64
	var clients sync.WaitGroup
	for transport, c := range x.dialBoth(t) {
		read := func(h servertest.Handle) (string, error) {
			p := make([]byte, 16)
			n, err := c.Read(ctx, h, 0, p)
			return string(p[:n]), err
		}
		clients.Go(func() {
			root, err := c.Mount(ctx, "/keep")
			if err != nil {
				t.Error(err)
				return
			}
			file, err := c.Lookup(ctx, root, "file")
			if err != nil {
				t.Error(err)
				return
			}
			for !done.Load() {
				if text, err := read(file); err != nil || text != "keep" {
					t.Errorf("%s: the export that stays: %q, %v", transport, text, err)
					return
				}
				reads.Add(1)
				for name, content := range may {
					h, err := c.Mount(ctx, name)
					if err == nil {
						h, err = c.Lookup(ctx, h, "file")
					}
					if err != nil {
						continue
					}
					text, err := read(h)
					if err != nil {
						continue
					}
					if further.Add(1); !strings.Contains(content, text) {
						t.Errorf("%s: %s reads %q, want one of %q", transport, name, text, content)
					}
				}
				if h, err := c.Mount(ctx, "/vault"); err == nil {
					t.Errorf("%s: /vault is mounted: %x", transport, h)
				}
			}
		})
	}

	for i := 5; i < 5+rounds; i++ {
		switch i % 5 {
		case 0: // another disk at the same place: that of the stricter export /vault, or an ordinary one
			for unix.Unmount(disk, unix.MNT_DETACH) == nil {
			}
			if err := unix.Mount("disk", disk, "tmpfs", 0, ""); err != nil {
				t.Fatal(err)
			}
			put(map[bool]string{true: "secret", false: "disk"}[i%10 == 0], disk)
		case 1:
			m.Stall()
		case 2: // a directory goes
			_ = os.Rename(a, a+".away")
		case 3:
			_ = os.Rename(a+".away", a)
		case 4:
			m.LetGo()
		}
		all := []string{keep + " /keep rw"}
		vault := (i+1)%10 < 6 // from before the disk with the secret is mounted, until another one is
		switch i % 6 {
		case 0:
			all = append(all, in+" /keep/in nested,ro", a+" /a rw")
		case 1:
			all = append(all, m.Dir+" /hangs rw", b+" /b ro")
		case 2:
			all = append(all, a+" /a rw", b+" /a rw") // wrong: one name twice
		case 3:
			all = append(all, b+" /a rw", filepath.Join(base, "missing")+" /missing rw")
		case 4:
			all = append(all, m.Dir+" /hangs"+strict, a+" /a ro", a+" /b2 rw")
		case 5:
			all = append(all, b+" /b rw", in+" /in rw")
		}
		if vault {
			all = append(all, disk+" /vault"+strict, srv+" /srv crossmnt")
		} else {
			all = append(all, srv+" /srv crossmnt,ro")
		}
		// The daemon names the exports that a reload adds, so that the end of each one can be told.
		round, wrong := fmt.Sprintf("/round%d", i), i%6 == 2
		refused := strings.Count(x.Output(), "reload failed")
		x.write(append(all, b+" "+round+" ro")...)
		x.Signal(syscall.SIGHUP)
		waits := i%5 != 0 && i%5 != 4 && i%6%3 == 1 // for the disk that hangs
		if i%5 == 2 || waits && i%60 > 15 {
			continue // the next request comes while this one waits
		}
		await(t, ctx, "the end of "+round, func() bool {
			if wrong {
				return strings.Count(x.Output(), "reload failed") > refused
			}
			return strings.Contains(x.Output(), `"`+round+`"`)
		})
	}
	done.Store(true)
	clients.Wait()
	if reads.Load() == 0 || further.Load() == 0 {
		t.Errorf("%d reads of the export that stays, %d of others", reads.Load(), further.Load())
	}
	t.Logf("%d reloads, %d reads of the export that stays, %d of others", rounds, reads.Load(), further.Load())
	m.LetGo()
	ends(t, x.Process, syscall.SIGTERM, inOrder)
}
