package soak

import (
	"context"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// version41 uses NFSv4.1 or 4.2. Its session replaces lost connections.
type version41 struct {
	client.NFS4
	owner []byte
	// abandons is true if Close disconnects without destroying the session.
	abandons bool
}

func dial41(ctx context.Context, target client.Target, minor uint32, owner string) (*version41, error) {
	for {
		s, err := client.DialSession(ctx, client.SessionConfig{Target: target, Minor: minor, Timeout: patience})
		if err == nil {
			n := s.NFS4()
			n.Patient = true
			return &version41{NFS4: n, owner: []byte(owner)}, nil
		}
		if wait(ctx, comeBack); ctx.Err() != nil {
			return nil, err
		}
	}
}

// Root implements caller.
func (v *version41) Root(ctx context.Context, export string) (client.Handle, error) {
	return v.Walk(ctx, nil, export)
}

// Open implements caller. It locks the whole file.
func (v *version41) Open(ctx context.Context, dir client.Handle, name string) (*file, error) {
	how := &nfs4wire.Createhow4{Mode: nfs4wire.Unchecked4, Createattrs: client.ModeAttribute(0o644)}
	o, err := v.NFS4.Open(ctx, client.Open4{Dir: dir, Name: name, Owner: v.owner, Access: nfs4wire.Open4ShareAccessBoth, Create: how})
	if err != nil {
		return nil, err
	}
	f := &file{handle: o.File, open: o.StateID}
	f.lock, err = v.Lock(ctx, f.handle, f.open, v.owner, nfs4wire.WriteLt, everything)
	return f, err
}

// Read implements caller.
func (v *version41) Read(ctx context.Context, f *file, at uint64, b []byte) (int, error) {
	n, _, err := v.NFS4.Read(ctx, f.handle, f.lock, at, b)
	for statusOf(err) == nfs4wire.NFS4ErrRetryUncachedRep {
		// The connection was lost, and the daemon does not keep the reply to a READ (RFC 8881
		// §2.10.6.1.3).
		n, _, err = v.NFS4.Read(ctx, f.handle, f.lock, at, b)
	}
	return n, err
}

// Write implements caller.
func (v *version41) Write(ctx context.Context, f *file, at uint64, b []byte, stable bool) (int, error) {
	how := nfs4wire.Unstable4
	if stable {
		how = nfs4wire.FileSync4
	}
	w, err := v.NFS4.Write(ctx, f.handle, f.lock, at, b, how)
	return w.Count, err
}

// Resize implements caller.
func (v *version41) Resize(ctx context.Context, f *file, size uint64) error {
	return v.Setattr(ctx, f.handle, f.lock, client.SizeAttribute(size))
}

// Release implements caller.
func (v *version41) Release(ctx context.Context, f *file) error {
	if _, err := v.Unlock(ctx, f.handle, f.lock, nfs4wire.WriteLt, everything); err != nil {
		return err
	}
	return v.CloseFile(ctx, f.handle, f.open)
}

// Rename implements caller.
func (v *version41) Rename(ctx context.Context, dir client.Handle, from, to string) error {
	return v.NFS4.Rename(ctx, dir, from, dir, to)
}

// Close implements caller.
func (v *version41) Close() {
	if v.abandons {
		v.Session.Abandon()
		return
	}
	_ = v.Session.Close() // If this fails, the daemon destroys the session when its lease ends.
}
