package soak

import (
	"context"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A caller makes the calls of one version of NFS. One goroutine uses it.
type caller interface {
	// Root returns the root of an export.
	Root(ctx context.Context, export string) (client.Handle, error)
	// Open opens a file, and creates it if it does not exist.
	Open(ctx context.Context, dir client.Handle, name string) (*file, error)
	// Read and Write transfer as many bytes as one call can; n is the number of bytes.
	Read(ctx context.Context, f *file, at uint64, b []byte) (n int, err error)
	Write(ctx context.Context, f *file, at uint64, b []byte, stable bool) (n int, err error)
	Resize(ctx context.Context, f *file, size uint64) error
	Release(ctx context.Context, f *file) error
	// Rename and Remove also succeed if they had to repeat the call and the name no longer
	// exists.
	Rename(ctx context.Context, dir client.Handle, from, to string) error
	Remove(ctx context.Context, dir client.Handle, name string) error
	// Close disconnects the caller.
	Close()
}

// A file is an open file. Only NFSv4 uses the stateids.
type file struct {
	handle     client.Handle
	open, lock nfs4wire.StateID4
	// Only NFSv4.0 uses the sequence numbers.
	openSeq, lockSeq uint32
	owner            []byte
}

// everything is the byte range of a whole file.
var everything = client.Range4{Length: nfs4wire.NFS4Maxfilelen}

// gone returns nil instead of the error for a missing name, if the call was repeated.
func gone(err error, again bool) error {
	if again && err != nil && statusOf(err) == nfs4wire.NFS4ErrNoEnt {
		return nil
	}
	return err
}
