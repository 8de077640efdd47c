package server_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/server/admin"
	wire3 "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest/stalled"
)

// opens shows paths, and locks show ranges, holders and those that wait. Both can be asked for a client, an export and a
// file.
func TestOpensAndLocksOfARunningDaemon(t *testing.T) {
	d := start(t, "rw,insecure,no_root_squash")
	ctx := testContext(t)
	one, other := d.open(t, "one"), d.open(t, "one")
	d.open(t, "other")
	held, err := one.Lock(ctx, one.File, one.StateID, []byte("holder"), wire.WriteLt, client.Range4{Offset: 5, Length: 10})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Lock(ctx, other.File, other.StateID, []byte("waiter"), wire.ReadwLt, client.Range4{Length: 1<<64 - 1}); client.StatusOf(err) != wire.NFS4ErrDenied {
		t.Fatal("a lock that another client has: ", err)
	}
	path := filepath.Join(d.export, "one")
	all := asked[[]admin.Open](t, d, "opens")
	of := asked[[]admin.Open](t, d, "opens", "--file", path)
	if len(all) != 3 || len(of) != 2 || of[0].Path != path || of[0].Access != "rw" || of[0].Deny != "" || of[0].Export != "/" || of[0].Client == of[1].Client {
		t.Errorf("opens: %+v\nof one file: %+v", all, of)
	}
	if by := asked[[]admin.Open](t, d, "opens", "--client", of[0].Client, "--export", "/", "--file", of[0].Handle); len(by) != 1 || by[0] != of[0] {
		t.Errorf("of a client: %+v", by)
	}
	if err := os.Remove(filepath.Join(d.export, "other")); err != nil {
		t.Fatal(err)
	}
	if removed := d.ask(t, "opens"); !strings.Contains(removed, "/other (deleted)") {
		t.Errorf("a removed file:\n%s", removed)
	}
	locks := asked[[]admin.Lock](t, d, "locks")
	if len(locks) != 2 {
		t.Fatalf("locks: %+v", locks)
	}
	has, waits := locks[0], locks[1]
	if has.Waits {
		has, waits = waits, has
	}
	if has.Owner != "holder" || has.First != 5 || has.Last != 14 || !has.Write || has.Path != path {
		t.Errorf("the lock: %+v", has)
	}
	if !waits.Waits || waits.Owner != "waiter" || waits.Write || waits.By == nil || waits.By.Client != has.Client || waits.By.Owner != "holder" || waits.Asked == nil {
		t.Errorf("the waiter: %+v", waits)
	}
	if table := d.ask(t, "locks"); !strings.Contains(table, "waits for "+has.Client) || !strings.Contains(table, "0-end") {
		t.Errorf("the table of locks:\n%s", table)
	}
	if of := asked[[]admin.Lock](t, d, "locks", "--file", d.export); len(of) != 0 {
		t.Errorf("locks of a file without: %+v", of)
	}
	for _, wrong := range [][]string{{"opens", "--client", "x"}, {"locks", "--export", "/nowhere"}} {
		if _, failed := command(t, append(wrong, "--state-dir", d.state)...); !strings.Contains(failed, "nfsrdmad "+strings.TrimPrefix(wrong[1], "--")+"s") {
			t.Errorf("%q: %q", wrong, failed)
		}
	}
	if _, err := one.Unlock(ctx, one.File, held, wire.WriteLt, client.Range4{Offset: 5, Length: 10}); err != nil {
		t.Error(err)
	}
}

// A file is the same by every path that programs have, and by its digits. What is no file, or in no file system of an
// export, is refused, and so is an address that stands for a network.
func TestNamesOfFilesAndClients(t *testing.T) {
	d := start(t, "rw,insecure,no_root_squash")
	d.open(t, "one")
	d.open(t, "gone")
	strange := "strange \u009b2J \"\\ name"
	d.open(t, strange)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(d.export, link); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(here, filepath.Join(d.export, "one"))
	if err != nil {
		t.Fatal(err)
	}
	digits := asked[[]admin.Open](t, d, "opens", "--file", filepath.Join(d.export, "gone"))[0].Handle
	if err := os.Remove(filepath.Join(d.export, "gone")); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{filepath.Join(link, "one"), relative, digits, filepath.Join(d.export, strange)} {
		all := asked[[]admin.Open](t, d, "opens", "--file", file)
		if len(all) != 1 {
			t.Fatalf("%s: %+v", file, all)
		}
		if by := asked[[]admin.Open](t, d, "opens", "--file", all[0].Handle); len(by) != 1 || by[0] != all[0] {
			t.Errorf("%s by its digits: %+v", file, by)
		}
		if strings.Contains(all[0].Path, "\u009b") {
			t.Errorf("a path reaches the terminal as it is: %q", all[0].Path)
		}
		if all[0].Handle == digits {
			continue
		}
		if by := asked[[]admin.Open](t, d, "opens", "--file", all[0].Path); len(by) != 1 || by[0] != all[0] {
			t.Errorf("%s as the list shows it: %+v", file, by)
		}
	}
	for name, wrong := range map[string][]string{
		"cannot be found":            {"release", "--file", filepath.Join(d.export, "gone")},
		"is in no file system":       {"release", "--file", "/proc/self/status"},
		"name 2001:db8:0:1::/64 for": {"evict", "2001:db8:0:1::5"},
		"name 2001:db8::/64 for":     {"release", "--client", "2001:db8::"},
		"there is no client":         {"opens", "--client", "2001:db8::5"},
	} {
		if _, failed := command(t, append(wrong, "--state-dir", d.state)...); !strings.Contains(failed, name) {
			t.Errorf("%q: %q", wrong, failed)
		}
	}
	if all := asked[[]admin.Open](t, d, "opens", "--client", "127.0.0.1/32"); len(all) != 3 {
		t.Errorf("a network of one address: %+v", all)
	}
}

// While a file system hangs, calls shows which operation of which client waits for it, on which file, by versions 3 and 4.
// The command itself waits for nothing there, and nor do the other lists.
func TestCallsThatHangAreShown(t *testing.T) {
	m := stalled.Mount(t)
	d := startOn(t, m.Dir, t.TempDir(), "rw,insecure,no_root_squash")
	ctx := testContext(t)
	file := d.open(t, "file")
	c, root := d.mounted(t)
	other, err := c.Create(ctx, root, "other", 0o666)
	if err != nil {
		t.Fatal(err)
	}
	m.Stall()
	written, other3 := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := file.Write(ctx, file.File, file.StateID, 0, []byte("data"), wire.FileSync4)
		written <- err
	}()
	go func() {
		_, err := c.Write(ctx, other, 0, []byte("data"), wire3.FileSync)
		other3 <- err
	}()
	m.AwaitHanging(2)
	shown := func(operation, name string) bool {
		for _, c := range asked[[]admin.Call](t, d, "calls") {
			if c.Operation == operation && c.File != nil && c.Path == filepath.Join(m.Dir, name) && c.Waits == "disk" && c.Export == "/" && c.Transport == "tcp" && len(c.Exports) == 1 {
				return true
			}
		}
		return false
	}
	await(t, testContext(t), "the WRITE by version 4 is shown", func() bool { return shown("WRITE", "file") })
	await(t, testContext(t), "the WRITE by version 3 is shown", func() bool { return shown("WRITE", "other") })
	if table := d.ask(t, "calls"); !strings.Contains(table, "nfs4 WRITE") || !strings.Contains(table, "nfs3 WRITE") {
		t.Errorf("the table of calls:\n%s", table)
	}
	for _, list := range []string{"status", "clients", "opens", "locks"} {
		d.ask(t, list)
	}
	m.LetGo()
	if err := <-written; err != nil {
		t.Error(err)
	}
	if err := <-other3; err != nil {
		t.Error(err)
	}
	await(t, testContext(t), "no call is in progress", func() bool { return len(asked[[]admin.Call](t, d, "calls")) == 0 })
}

// exports shows the options in force after a reload, and an export that is not served, with the reason.
func TestExportsByCommand(t *testing.T) {
	one, gone := t.TempDir(), filepath.Join(t.TempDir(), "gone")
	d := startReloading(t, one+" /one ro,clients=127.0.0.0/8", one+" /two rw,nested")
	shown := func() map[string]admin.Export {
		out, failed := command(t, "exports", "--config", d.config, "--json")
		var all []admin.Export
		if err := json.Unmarshal([]byte(out), &all); err != nil || failed != "" {
			t.Fatal(out, failed, err)
		}
		by := make(map[string]admin.Export)
		for _, e := range all {
			by[e.Name] = e
		}
		return by
	}
	now := shown()
	if e := now["/one"]; e.State != "served" || e.Path != one || e.Everybody || !strings.HasPrefix(e.Options, "ro,") || !strings.Contains(e.Options, "clients=127.0.0.0/8") {
		t.Errorf("/one: %+v", e)
	}
	if e := now["/two"]; e.State != "served" || !e.Everybody {
		t.Errorf("/two: %+v", e)
	}
	d.write(one+" /one rw,clients=127.0.0.0/8", gone+" /gone rw,clients=127.0.0.0/8")
	if _, failed := command(t, "reload", "--config", d.config); failed != "" {
		t.Fatal(failed)
	}
	now = shown()
	if e := now["/one"]; !strings.HasPrefix(e.Options, "rw,") {
		t.Errorf("/one after a reload: %+v", e)
	}
	if e := now["/gone"]; e.State != "not served" || !strings.Contains(e.Fault, gone) {
		t.Errorf("/gone: %+v", e)
	}
	if _, there := now["/two"]; there {
		t.Error("/two is still there")
	}
}
