package soak

import (
	"context"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A caller makes the calls of one version of NFS. One goroutine uses it.
type caller interface {
	// Root gives the root of an export.
	Root(ctx context.Context, export string) (client.Handle, error)
	// Open opens a file, which it makes if there is none.
	Open(ctx context.Context, dir client.Handle, name string) (*file, error)
	// Read and Write move as many bytes as a call of this caller can; n says how many.
	Read(ctx context.Context, f *file, at uint64, b []byte) (n int, err error)
	Write(ctx context.Context, f *file, at uint64, b []byte, stable bool) (n int, err error)
	Resize(ctx context.Context, f *file, size uint64) error
	Release(ctx context.Context, f *file) error
	// Rename and Remove find it right that the name is gone where they had to ask again.
	Rename(ctx context.Context, dir client.Handle, from, to string) error
	Remove(ctx context.Context, dir client.Handle, name string) error
	// Close leaves.
	Close()
}

// A file is open. The stateids are of NFSv4 alone.
type file struct {
	handle     client.Handle
	open, lock nfs4wire.StateID4
	// The sequence numbers are of NFSv4.0 alone.
	openSeq, lockSeq uint32
	owner            []byte
}

// everything is the range of a whole file.
var everything = client.Range4{Length: nfs4wire.NFS4Maxfilelen}

// gone makes the error of a name that is not there none where the call was made again.
func gone(err error, again bool) error {
	if again && err != nil && statusOf(err) == nfs4wire.NFS4ErrNoEnt {
		return nil
	}
	return err
}
