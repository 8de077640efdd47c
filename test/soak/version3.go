package soak

import (
	"context"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// version3 uses NFSv3.
type version3 struct {
	way
	mountPort int
}

// Root implements caller.
func (v *version3) Root(ctx context.Context, export string) (root client.Handle, err error) {
	err = v.do(ctx, func(c *client.Conn, _ bool) error {
		root, err = c.MountRoot(ctx, export, v.mountPort)
		return err
	})
	return root, err
}

// Open implements caller.
func (v *version3) Open(ctx context.Context, dir client.Handle, name string) (*file, error) {
	f := new(file)
	return f, v.do(ctx, func(c *client.Conn, _ bool) (err error) {
		f.handle, _, err = c.NFS3().Create(ctx, dir, name, nfs3wire.CreateHow3{
			Mode: nfs3wire.Unchecked, ObjAttributes: nfs3wire.Sattr3{Mode: nfs3wire.SetMode3{SetIt: true, Mode: 0o644}},
		})
		return err
	})
}

// Read implements caller.
func (v *version3) Read(ctx context.Context, f *file, at uint64, b []byte) (n int, err error) {
	err = v.do(ctx, func(c *client.Conn, _ bool) error {
		n, _, err = c.NFS3().Read(ctx, f.handle, at, b)
		return err
	})
	return n, err
}

// Write implements caller.
func (v *version3) Write(ctx context.Context, f *file, at uint64, b []byte, stable bool) (int, error) {
	how := nfs3wire.Unstable
	if stable {
		how = nfs3wire.FileSync
	}
	var w client.Written
	err := v.do(ctx, func(c *client.Conn, _ bool) (err error) {
		w, err = c.NFS3().Write(ctx, f.handle, at, b, how)
		return err
	})
	return w.Count, err
}

// Resize implements caller.
func (v *version3) Resize(ctx context.Context, f *file, size uint64) error {
	return v.do(ctx, func(c *client.Conn, _ bool) error {
		return c.NFS3().Setattr(ctx, f.handle, nfs3wire.Sattr3{Size: nfs3wire.SetSize3{SetIt: true, Size: size}})
	})
}

// Release implements caller.
func (v *version3) Release(context.Context, *file) error { return nil }

// Rename implements caller.
func (v *version3) Rename(ctx context.Context, dir client.Handle, from, to string) error {
	return v.do(ctx, func(c *client.Conn, again bool) error {
		return gone(c.NFS3().Rename(ctx, dir, from, dir, to), again)
	})
}

// Remove implements caller.
func (v *version3) Remove(ctx context.Context, dir client.Handle, name string) error {
	return v.do(ctx, func(c *client.Conn, again bool) error {
		return gone(c.NFS3().Remove(ctx, dir, name), again)
	})
}
