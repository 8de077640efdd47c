package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/server"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest/stalled"
)

// mounts reports whether a new connection can mount an export.
func (d *reloading) mounts(name string) bool {
	d.t.Helper()
	c := d.dialBoth(d.t)["tcp"]
	defer c.Close()
	_, err := c.Mount(testContext(d.t), name)
	return err == nil
}

// A client of an outer export moves the directory of an inner one away. The other exports are served
// with their new options after a reload, and after a restart, and the inner one as soon as its
// directory is there again.
func TestExportWithoutItsDirectoryIsLeftOut(t *testing.T) {
	outer, other := t.TempDir(), t.TempDir()
	inner, _ := mountPoint(t, outer, "inner")
	d := startReloading(t, outer+" /outer rw", inner+" /inner rw", other+" /other rw")
	c, ctx := d.dialBoth(t)["tcp"], testContext(t)
	h, err := c.Mount(ctx, "/outer")
	if err != nil {
		t.Fatal(err)
	}
	within, err := c.Mount(ctx, "/inner")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Status(ctx, wire.ProcRename, &wire.Rename3Args{From: where(h, "inner"), To: where(h, "away")}); err != nil {
		t.Fatal(err)
	}
	const strict = " clients=192.0.2.1/32"
	d.reload("configuration read again", outer+" /outer"+strict, inner+" /inner"+strict, other+" /other rw")
	says(t, d.Process, "cannot be opened at its path: the one before is still served", "/inner", "is not there")
	for name, dir := range map[string]servertest.Handle{"/outer": h, "/inner": within} {
		if _, err := c.Create(ctx, dir, "still", 0o644); err == nil {
			t.Errorf("a client that was taken out of clients= still writes to %s", name)
		}
	}
	d.Signal(syscall.SIGTERM)
	d.Wait()
	d.Process = nfsrdmad(t, "serve", "--config", d.config)
	d.AwaitLine("serving")
	says(t, d.Process, "an export is left out", "/inner", "is not there")
	if !d.mounts("/other") || d.mounts("/inner") {
		t.Error("/other is not mounted, or /inner is")
	}
	if err := os.Rename(filepath.Join(outer, "away"), inner); err != nil {
		t.Fatal(err)
	}
	d.reload(`"added": ["/inner"]`, outer+" /outer rw", inner+" /inner rw", other+" /other rw")
	if !d.mounts("/inner") {
		t.Error("/inner is not served although its directory is there again")
	}
	ends(t, d.Process, syscall.SIGTERM, inOrder)
}

// If the configuration names another directory, which cannot be opened, the directory of before is
// not served with the options that are meant for the other one.
func TestExportWithAnotherPathThatCannotBeOpened(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	d := startReloading(t, one+" /one clients=192.0.2.1/32", two+" /two rw")
	d.reload("configuration read again", one+"/gone /one rw", two+" /two rw")
	if d.mounts("/one") || !d.mounts("/two") {
		t.Error("/one is mounted, or /two is not")
	}
	ends(t, d.Process, syscall.SIGTERM, inOrder)
}

// With the key strict, the daemon does not start without each export.
func TestStrictStart(t *testing.T) {
	dir := t.TempDir()
	file := writeFile(t, "nfsrdmad.toml", "strict = true\nrdma = [\"none\"]\ntcp = [\""+servertest.FreePort(t, ownLoopback()).String()+"\"]\nstate_dir = \""+t.TempDir()+
		"\"\n[[export]]\npath = \""+dir+"\"\n[[export]]\npath = \""+dir+"/gone\"\n")
	p := nfsrdmad(t, "serve", "--config", file)
	if status := p.Wait(); status != 2 {
		t.Errorf("status %d, want 2", status)
	}
	says(t, p, file+":8: ", "is not there")
}

// A file system hangs. The daemon starts without it, and reloads do not wait for it, even if an
// earlier reload does. As soon as it answers it is served.
func TestExportThatHangsIsLeftOut(t *testing.T) {
	m := stalled.Mount(t)
	defer m.LetGo()
	works := t.TempDir()
	d := startReloading(t, m.Dir+" /hangs rw", works+" /works rw")
	m.Stall()
	d.write(m.Dir+" /hangs rw", works+" /works ro")
	d.Signal(syscall.SIGHUP)
	d.reload("configuration read again", works+" /works rw", t.TempDir()+" /new rw")
	await(t, testContext(t), "/new is served", func() bool { return d.mounts("/new") && !d.mounts("/hangs") })
	m.LetGo() // how the daemon ends beside a file system that hangs is another test
	d.Signal(syscall.SIGTERM)
	d.Wait()

	m.Stall()
	d.write(m.Dir+" /hangs rw", works+" /works rw")
	d.Process = nfsrdmad(t, "serve", "--config", d.config)
	d.AwaitLine("serving")
	says(t, d.Process, "an export is left out", "/hangs", "has not answered")
	if !d.mounts("/works") || d.mounts("/hangs") {
		t.Error("/works is not mounted, or /hangs is")
	}
	m.LetGo()
	d.AwaitLine("can be opened again")
	if !d.mounts("/hangs") {
		t.Error("/hangs is not served although it answers")
	}
	ends(t, d.Process, syscall.SIGTERM, inOrder)
}

// The only file system hangs when the daemon starts. The daemon waits for it and says so. It ends neither
// with an error nor with the status of a wrong configuration, after which systemd does not start it again.
func TestStartWaitsForTheOnlyExport(t *testing.T) {
	for _, strict := range []bool{false, true} {
		m := stalled.Mount(t)
		defer m.LetGo()
		lines := []string{m.Dir + " /hangs rw"}
		if strict {
			lines = append(lines, t.TempDir()+" /works rw")
		}
		d := startReloading(t, lines...)
		d.Signal(syscall.SIGTERM)
		d.Wait()
		m.Stall()
		d.write(lines...)
		if strict {
			config, err := os.ReadFile(d.config)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(d.config, append([]byte("strict = true\n"), config...), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		d.Process = nfsrdmad(t, "serve", "--config", d.config)
		d.AwaitLine("the start waits for the directory of an export")
		m.LetGo()
		d.AwaitLine("serving")
		if !d.mounts("/hangs") {
			t.Error("/hangs is not served although it answers")
		}
		ends(t, d.Process, syscall.SIGTERM, inOrder)
	}
}

// A reload that fails changes nothing in exports.json. Neither does a reload without an export: if
// the export comes back, its directory must be the same.
func TestDirectoriesOfExportsAreRemembered(t *testing.T) {
	outer, other := t.TempDir(), t.TempDir()
	inner, _ := mountPoint(t, outer, "inner")
	private, _ := mountPoint(t, outer, "private")
	d := startReloading(t, outer+" /outer rw", inner+" /inner nested")
	_, state, _ := strings.Cut(d.head, `state_dir = "`)
	state, _, _ = strings.Cut(state, `"`)
	paths := func() []string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(state, "exports.json"))
		if err != nil {
			t.Fatal(err)
		}
		var all map[string]any
		if err := json.Unmarshal(b, &all); err != nil {
			t.Fatal(err)
		}
		return slices.Sorted(maps.Keys(all))
	}
	want := []string{outer, inner}
	slices.Sort(want)
	d.reload("reload failed", outer+" /outer fsid=0", other+" /other fsid=0")
	if got := paths(); !slices.Equal(got, want) {
		t.Errorf("after a reload that failed exports.json has %q, want %q", got, want)
	}
	d.reload("configuration read again", outer+" /outer rw")
	if got := paths(); !slices.Equal(got, want) {
		t.Errorf("after a reload without an export exports.json has %q, want %q", got, want)
	}
	if err := os.Rename(inner, filepath.Join(outer, "away")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(private, inner); err != nil {
		t.Fatal(err)
	}
	d.reload("configuration read again", outer+" /outer rw", inner+" /inner nested")
	says(t, d.Process, "an export is left out", "is another directory than before")
	if d.mounts("/inner") {
		t.Error("a directory that a client may have put there is served")
	}
	ends(t, d.Process, syscall.SIGTERM, inOrder)
}

// Start gives up while a file system hangs: of an export, or of the state directory. What it leaves
// behind ends, so that another Start with the same addresses and state directory succeeds.
func TestStartThatGaveUp(t *testing.T) {
	umask := unix.Umask(0) // a server in this process sets it
	unix.Umask(umask)
	t.Cleanup(func() { unix.Umask(umask) })
	for _, hangs := range []string{"export", "state directory"} {
		t.Run(hangs, func(t *testing.T) {
			m := stalled.Mount(t)
			defer m.LetGo()
			off := false
			cfg := &config.Config{
				StateDir: t.TempDir(), Rpcbind: &off, LogLevel: "error",
				TCP:  []config.Listen{{Addr: servertest.FreePort(t, ownLoopback())}},
				RDMA: []config.Listen{{None: true}},
			}
			cfg.Exports = []config.Export{{Path: config.Dir{Path: t.TempDir()}, Name: "/x"}}
			if hangs == "export" {
				cfg.Exports[0].Path.Path = m.Dir
			} else {
				cfg.StateDir = filepath.Join(m.Dir, "state")
			}
			m.Stall()
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_, err := server.Start(ctx, cfg)
			var unfinished *server.Unfinished
			if !errors.As(err, &unfinished) {
				t.Fatalf("Start: %v", err)
			}
			m.LetGo()
			again := *cfg
			await(t, testContext(t), "Start once more", func() bool {
				s, err := server.Start(testContext(t), &again)
				if err != nil {
					return false
				}
				ended, end := context.WithCancel(context.Background())
				end()
				return s.Serve(ended) == nil
			})
			if k, err := net.Dial("tcp", cfg.TCP[0].Addr.String()); err == nil {
				k.Close()
				t.Error("a server that ended listens")
			}
		})
	}
}
