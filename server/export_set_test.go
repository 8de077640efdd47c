package server_test

import (
	"errors"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/server"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// A closable is a file system that counts its Closes.
type closable struct {
	*memfs.FS
	closed atomic.Int32
}

// Close implements vfs.FileSystem.
func (f *closable) Close() error {
	f.closed.Add(1)
	return f.FS.Close()
}

func newClosable() *closable {
	return &closable{FS: memfs.New(memfs.Options{RootMode: 0o777})}
}

// stale reports whether a call was answered NFS3ERR_STALE.
func stale(err error) bool {
	var status *servertest.StatusError
	return errors.As(err, &status) && status.Status == wire.NFS3ErrStale
}

// Exports are added, replaced and removed while calls hang in them. These calls end with
// the export that they began with, and its file system is closed after the last of them.
// Later calls see the new exports.
func TestExportsChangeWhileCallsHang(t *testing.T) {
	for _, transport := range []string{"tcp", "rdma"} {
		t.Run(transport, func(t *testing.T) {
			const calls = 8
			old, next, other := newClosable(), newClosable(), newClosable()
			listen := []config.Listen{{Addr: netip.AddrPortFrom(ownLoopback(), 0)}}
			srv, err := server.NewOver(&config.Config{TCP: listen, RDMA: listen}, &export.Export{Name: "/one", FS: old, Options: export.Options{Squash: export.NoSquash}})
			if err != nil {
				t.Fatal(err)
			}
			s := &site{t: t, server: srv, tcp: srv.TCPAddrs()[0], rdma: srv.RDMAAddrs()[0]}
			stop := run(t, srv)
			ctx := testContext(t)
			c := s.dial(ctx, transport, netip.AddrPort{})
			file := s.file(ctx, c, "/one", 4096)

			release := old.Stall()
			defer release()
			answers := make(outcomes, calls)
			for range calls {
				c.Start(wire.ProcGetattr, &wire.Getattr3Args{Object: wire.FileHandle3{Data: file}}, nil, answers.done)
			}
			old.AwaitStalled(calls)

			// Add one export and replace another.
			stays := &export.Export{Name: "/two", FS: other, Options: export.Options{Squash: export.NoSquash}}
			if err := srv.Offer(&export.Export{Name: "/one", FS: next, Options: export.Options{Squash: export.NoSquash}}, stays); err != nil {
				t.Fatal(err)
			}
			two := s.file(ctx, c, "/two", 4096)
			works(t, ctx, c, two, 4096)
			works(t, ctx, c, s.file(ctx, c, "/one", 4096), 4096)
			if _, err := c.GetAttr(ctx, file); err == nil {
				t.Error("a handle of the directory that was replaced is good")
			}
			answers.none(t)
			if n := old.closed.Load(); n != 0 {
				t.Errorf("closed %d times while calls use it", n)
			}

			// Remove an export.
			if err := srv.Offer(stays); err != nil {
				t.Fatal(err)
			}
			await(t, ctx, "what no call uses is closed", func() bool { return next.closed.Load() == 1 })
			if _, err := c.GetAttr(ctx, file); !stale(err) {
				t.Errorf("a handle of an export that was removed: %v", err)
			}
			if _, err := c.Mount(ctx, "/one"); err == nil {
				t.Error("an export that was removed is mounted")
			}
			works(t, ctx, c, two, 4096)
			answers.none(t)
			if n := old.closed.Load(); n != 0 {
				t.Errorf("closed %d times while calls use it", n)
			}

			release()
			answers.all(t)
			await(t, ctx, "it is closed after the last call", func() bool { return old.closed.Load() == 1 })
			stop()
			for name, f := range map[string]*closable{"old": old, "next": next, "other": other} {
				if n := f.closed.Load(); n != 1 {
					t.Errorf("%s was closed %d times", name, n)
				}
			}
		})
	}
}

// New options take effect at once, also for existing handles. An unchanged export stays
// as it is.
func TestOptionsChangeWhileServing(t *testing.T) {
	one, two := newClosable(), newClosable()
	listen := []config.Listen{{Addr: netip.AddrPortFrom(ownLoopback(), 0)}}
	keep := &export.Export{Name: "/two", FS: two, Options: export.Options{Squash: export.NoSquash}}
	srv, err := server.NewOver(&config.Config{TCP: listen, RDMA: listen}, &export.Export{Name: "/one", FS: &shared{one}, Options: export.Options{Squash: export.NoSquash}}, keep)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, server: srv, tcp: srv.TCPAddrs()[0]}
	run(t, srv)
	ctx := testContext(t)
	c := s.dial(ctx, "tcp", netip.AddrPort{})
	file := s.file(ctx, c, "/one", 10)
	if err := srv.Offer(&export.Export{Name: "/one", FS: one, Options: export.Options{Squash: export.NoSquash, ReadOnly: true}}, keep); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(ctx, file, 0, make([]byte, 10)); err != nil {
		t.Errorf("READ: %v", err)
	}
	var status *servertest.StatusError
	if _, err := c.Write(ctx, file, 0, make([]byte, 10), wire.FileSync); !errors.As(err, &status) || status.Status != wire.NFS3ErrROFS {
		t.Errorf("WRITE to what is read-only now: %v", err)
	}
	// This list is invalid: two exports have the same name.
	if err := srv.Offer(keep, &export.Export{Name: "/two", FS: &shared{one}}); err == nil {
		t.Error("two exports of one name are taken")
	}
	if _, err := c.Read(ctx, file, 0, make([]byte, 10)); err != nil {
		t.Errorf("READ after a change that was refused: %v", err)
	}
}

// shared is a file system that other exports use as well, so its Close does nothing.
type shared struct{ *closable }

// Close does nothing.
func (*shared) Close() error { return nil }

// If the server ends while a removed export still has a call, its error names the export
// that it leaves behind.
func TestEndsWhileCallsHangInAnExportThatIsGone(t *testing.T) {
	fs, other := newClosable(), newClosable()
	h := callThatHangs(t, "/gone", fs)
	if err := h.Offer(&export.Export{Name: "/other", FS: other}); err != nil {
		t.Fatal(err)
	}
	h.leaves("/gone")
	if fs.closed.Load() != 0 || other.closed.Load() != 1 {
		t.Errorf("closed: %d and %d times", fs.closed.Load(), other.closed.Load())
	}
	if err := h.Offer(); err == nil {
		t.Error("exports are changed after the end")
	}
	h.release()
	<-h.ended
	await(t, testContext(t), "it is closed after its call", func() bool { return fs.closed.Load() == 1 })
}
