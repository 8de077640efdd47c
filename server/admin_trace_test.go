package server_test

import (
	"context"
	"encoding/json"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/server/admin"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
)

// follow begins a trace at the daemon, and returns a function that returns its next call for which is returns true.
func (d *daemon) follow(t *testing.T, with url.Values) func(is func(*admin.Traced) bool) *admin.Traced {
	t.Helper()
	ctx, cancel := context.WithCancel(testContext(t))
	body, err := admin.NewCaller(filepath.Join(d.state, "admin.sock")).Ask(ctx, "GET", "/trace", with)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		body.Close()
	})
	in := json.NewDecoder(body)
	return func(is func(*admin.Traced) bool) *admin.Traced {
		t.Helper()
		for {
			var c admin.Traced
			if err := in.Decode(&c); err != nil {
				t.Fatal(err)
			}
			if is(&c) {
				return &c
			}
		}
	}
}

// A trace shows calls of versions 3 and 4 as they end, with operations, status and path; with a filter, only those of the
// client or the export.
func TestTraceOfARunningDaemon(t *testing.T) {
	d := start(t, "rw,insecure,no_root_squash")
	ctx := testContext(t)
	c, err := servertest.DialTCP(ctx, d.tcp)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	all, of := d.follow(t, nil), d.follow(t, url.Values{"client": {"127.0.0.0/8"}, "export": {"/"}})
	root, err := c.Mount(ctx, "/")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Lookup(ctx, root, "none"); err == nil {
		t.Fatal("LOOKUP of a name that is not there")
	}
	for name, next := range map[string]func(func(*admin.Traced) bool) *admin.Traced{"all": all, "filtered": of} {
		is := next(func(c *admin.Traced) bool { return c.Operation == "LOOKUP" })
		if is.Status != "NFS3ERR_NOENT" || is.File == nil || is.Path != d.export || is.Export != "/" || is.Transport != "tcp" || is.Version != 3 || is.Seconds <= 0 {
			t.Errorf("%s: %+v", name, is)
		}
	}
	d.open(t, "file")
	is := of(func(c *admin.Traced) bool { return c.Operation == "OPEN" })
	if is.Status != "NFS4_OK" || !slices.Contains(is.Operations, "SEQUENCE") || is.File == nil || is.Path != filepath.Join(d.export, "file") || is.Version != 4 {
		t.Errorf("OPEN: %+v", is)
	}
	calling, end := context.WithCancel(ctx)
	var caller sync.WaitGroup
	caller.Go(func() {
		for calling.Err() == nil {
			_, _ = c.Lookup(ctx, root, "none")
		}
	})
	top := asked[admin.Top](t, d, "top", "--times", "1", "--seconds", "1")
	for _, name := range []string{"trace", "top"} {
		endless := exec.CommandContext(ctx, binary(t), name, "--state-dir", d.state)
		out, err := endless.StdoutPipe()
		if err == nil {
			err = endless.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Error(err)
		}
		_ = endless.Process.Signal(os.Interrupt)
		_, _ = io.Copy(io.Discard, out)
		if err := endless.Wait(); err != nil {
			t.Errorf("after Ctrl-C %s ends with %v", name, err)
		}
	}
	end()
	caller.Wait()
	if top.Calls == 0 || len(top.Exports) == 0 || top.Exports[0].Name != "/" || len(top.Clients) != 1 || top.Operations[0].Name != "nfs LOOKUP" || top.Operations[0].Failed == 0 || top.Operations[0].Mean <= 0 {
		t.Errorf("top: %+v", top)
	}
	if out := d.ask(t, "top", "--times", "1", "--seconds", "1"); !strings.Contains(out, "OPERATION") || !strings.Contains(out, "calls/s") {
		t.Errorf("a page of top:\n%s", out)
	}
	if _, failed := command(t, "trace", "--export", "/none", "--state-dir", d.state); !strings.Contains(failed, "there is no export") {
		t.Errorf("a trace of an export that is not there: %q", failed)
	}
}

// A trace whose reader has stopped delays no call, and says how many calls it left out.
func TestTraceWithAReaderThatStops(t *testing.T) {
	d := start(t, "rw,insecure,no_root_squash")
	ctx := testContext(t)
	next := d.follow(t, nil)
	c, err := servertest.DialTCP(ctx, d.tcp)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 10_000 { // some megabytes of lines: more than the socket holds
		if err := c.Null(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if is := next(func(c *admin.Traced) bool { return c.Dropped > 0 }); is.Dropped == 0 {
		t.Errorf("%+v", is)
	}
}

// clients shows a client of NFSv3 that locks nothing, with what it has mounted, and over what a client of version 4 comes.
func TestClientsShowsEveryPeer(t *testing.T) {
	d := start(t, "rw,insecure,no_root_squash")
	ctx := testContext(t)
	for _, c := range d.dialBoth(t) {
		root, err := c.Mount(ctx, "/")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.GetAttr(ctx, root); err != nil {
			t.Fatal(err)
		}
	}
	all := asked[[]admin.Client](t, d, "clients")
	if len(all) != 1 {
		t.Fatalf("%+v", all)
	}
	if c := all[0]; c.Kind != "3" || c.ID != "" || c.Connections != 2 || !slices.Equal(c.Over, []string{"rdma", "tcp"}) || !slices.Equal(c.Versions, []string{"3"}) ||
		!slices.Equal(c.Flavors, []string{"sys"}) || !slices.Equal(c.Mounts, []string{"/"}) || c.Seen.IsZero() {
		t.Errorf("%+v", c)
	}
	d.open(t, "file")
	all = asked[[]admin.Client](t, d, "clients")
	if len(all) != 2 || all[0].Kind != "4.1+" || all[1].Kind != "3" || all[0].Connections < 3 || !slices.Contains(all[0].Versions, "4.2") && !slices.Contains(all[0].Versions, "4.1") {
		t.Errorf("with a client of version 4: %+v", all)
	}
	if out := d.ask(t, "clients"); strings.Count(out, "\n") != 3 || !strings.Contains(out, "rdma,tcp") {
		t.Errorf("the table:\n%s", out)
	}
}
