package exports

import (
	"context"
	"testing"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest/stalled"
)

// A request that abandons an earlier one waits for the directories that the earlier one has begun to
// open, and serves them. At most one goroutine opens a directory that does not answer.
func TestNewerRequestGoesOnWithTheOpenings(t *testing.T) {
	umask := unix.Umask(0)
	unix.Umask(umask)
	t.Cleanup(func() { unix.Umask(umask) })
	m := stalled.Mount(t)
	defer m.LetGo()
	filesystems := NewFilesystems(t.TempDir(), zap.NewNop(), descriptors)
	offer, set := offerOf(filesystems, zap.NewNop())
	works := config.Export{Path: config.Dir{Path: t.TempDir()}, Name: "/works"}
	hangs := config.Export{Path: config.Dir{Path: m.Dir}, Name: "/hangs"}
	if _, err := offer.Serve(t.Context(), []config.Export{works}); err != nil {
		t.Fatal(err)
	}
	m.Stall()
	for range 3 {
		ctx, abandon := context.WithCancel(t.Context())
		abandon()
		if _, err := offer.Serve(ctx, []config.Export{works, hangs}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(set.Table.All()); n != 1 {
		t.Errorf("%d exports are served while one hangs", n)
	}
	offer.mu.Lock()
	if n := len(offer.busy); n == 0 || n > 2 {
		t.Errorf("%d directories are being opened", n)
	}
	offer.mu.Unlock()
	if _, err := offer.Stop(t.Context(), "/works"); err != nil {
		t.Error(err)
	}
	if err := offer.Start(t.Context(), "/works"); err != nil {
		t.Error(err)
	}
	if f := offer.Faults(); len(f) > 0 {
		t.Errorf("after the start of another export, for whose directory alone it has waited: %v", f)
	}
	served := make(chan Change)
	go func() {
		c, err := offer.Serve(t.Context(), []config.Export{works, hangs})
		if err != nil {
			t.Error(err)
		}
		served <- c
	}()
	await.Until(t, "the request waits", func() bool {
		offer.mu.Lock()
		defer offer.mu.Unlock()
		return len(offer.wanted) == 2 && len(offer.wanted[1].joined) > 0
	})
	m.LetGo()
	c := await.Receive(t, "the end of the request", served)
	await.Until(t, "both exports are served", func() bool { return len(set.Table.All()) == 2 })
	if len(offer.Faults()) > 0 {
		t.Errorf("%v, %v", c, offer.Faults())
	}
	if err := closeSet(set); err != nil {
		t.Error(err)
	}
}
