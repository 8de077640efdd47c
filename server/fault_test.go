package server_test

import (
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/server"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// crashing is a file system whose reads panic.
type crashing struct{ *memfs.FS }

func (crashing) Read(*vfs.Op, vfs.Handle, uint64, []byte, *vfs.Attr) (int, bool, error) {
	panic("crashing.Read")
}

// A bug in the server (here a panic of the file system) ends the call with an error, over either
// transport. The connection and all other calls continue. The log has one line with the stack,
// and the metric counts every such call.
func TestAFaultOfTheServerEndsOneCall(t *testing.T) {
	fs := crashing{memfs.New(memfs.Options{})}
	metrics := servertest.FreePort(t, ownLoopback())
	s, err := server.NewOver(&config.Config{
		TCP: []config.Listen{{Addr: netip.MustParseAddrPort("127.0.0.1:0")}}, RDMA: []config.Listen{{Addr: netip.MustParseAddrPort("127.0.0.1:0")}},
		Metrics: metrics.String(),
	}, &export.Export{Name: "/", FS: fs, Options: export.Options{Squash: export.NoSquash}})
	if err != nil {
		t.Fatal(err)
	}
	core, lines := observer.New(zapcore.ErrorLevel)
	s.LogTo(zap.New(core))
	run(t, s)
	ctx := testContext(t)
	overTCP, err := servertest.DialTCP(ctx, s.TCPAddrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer overTCP.Close()
	overRDMA, err := servertest.DialRDMA(ctx, s.RDMAAddrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer overRDMA.Close()
	calls := 0
	for name, c := range map[string]*servertest.Client{"tcp": overTCP, "rdma": overRDMA} {
		dir, err := c.Mount(ctx, "/")
		if err != nil {
			t.Fatal(err)
		}
		h, err := c.Create(ctx, dir, name, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			calls++
			_, err := c.Read(ctx, h, 0, make([]byte, 100_000))
			if re, ok := err.(*rpc.ReplyError); !ok || re.Stat != rpc.AcceptSystemErr {
				t.Errorf("%s: READ: %v, want SYSTEM_ERR", name, err)
			}
		}
		if _, err := c.GetAttr(ctx, h); err != nil {
			t.Errorf("%s: GETATTR on the same connection: %v", name, err)
		}
	}
	await(t, ctx, "payload memory comes back", func() bool { return s.Memory().InUse == 0 })
	if all := lines.All(); len(all) != 1 {
		t.Errorf("%d lines, want one: %v", len(all), all)
	} else if l := all[0]; l.ContextMap()["procedure"] != "READ" || l.ContextMap()["program"] != "nfs" ||
		l.ContextMap()["fault"] != "crashing.Read" || !strings.Contains(l.Stack, "crashing.Read(") {
		t.Errorf("line %v\n%s", l.ContextMap(), l.Stack)
	}
	answer, err := http.Get("http://" + metrics.String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if calls != 6 || !strings.Contains(string(text), "\nnfsrdmad_panics_total 6\n") {
		t.Errorf("the metric does not say %d", calls)
	}
}
