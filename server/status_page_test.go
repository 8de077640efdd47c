package server_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// The page shows the export, and a client that has mounted it and reads; what the plots show counts its bytes.
func TestStatusPageShowsAClientThatReads(t *testing.T) {
	at := servertest.FreePort(t, ownLoopback())
	config := writeFile(t, "nfsrdmad.toml", fmt.Sprintf("status_page = %q\n", at))
	d := start(t, "rw,insecure,no_root_squash", "--config", config)
	ctx := testContext(t)
	c, dir := d.mounted(t)
	h, err := c.Create(ctx, dir, "file", 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(ctx, h, 0, make([]byte, 1<<20), wire.FileSync); err != nil {
		t.Fatal(err)
	}
	var page string
	await(t, ctx, "the page shows the client, and what it reads", func() bool {
		for range 20 {
			if _, err := c.Read(ctx, h, 0, make([]byte, 1<<20)); err != nil {
				t.Fatal(err)
			}
		}
		page = webPage(t, "http://"+at.String()+"/")
		return strings.Contains(page, "<td>3</td><td>127.0.0.1</td>") && !strings.Contains(page, "read <b>-</b>") && !strings.Contains(page, "reads, 99 % <b>-</b>")
	})
	for _, want := range []string{d.export, "tcp", "v0-test", ">serving<"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %q", want)
		}
	}
	if !strings.Contains(d.ask(t, "report"), "statuspage.(*sampler).run") {
		t.Error("the report does not have the goroutine of the sampler")
	}
}

func webPage(t *testing.T, url string) string {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatal(r.Status, err)
	}
	return string(b)
}

// Without the key nothing of the page runs.
func TestWithoutStatusPageNothingOfItRuns(t *testing.T) {
	d := start(t, "rw,insecure,no_root_squash")
	report := d.ask(t, "report")
	if !strings.Contains(report, "===== goroutines") || strings.Contains(report, "statuspage.") {
		t.Error("a goroutine of the status page runs, or the report has none at all")
	}
}
