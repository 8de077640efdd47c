package probe

import (
	"context"
	"errors"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// A Program is an RPC program that a server supports.
type Program struct {
	Number uint32 `json:"program"`
	Name   string `json:"name"`
	// Versions are the versions for which the server answered a NULL call with success.
	Versions []uint32 `json:"versions"`
	// Low and High are the range of versions that the server stated in PROG_MISMATCH; 0 if it
	// stated none.
	Low  uint32 `json:"low,omitempty"`
	High uint32 `json:"high,omitempty"`
	// Minor are the minor versions of NFS version 4.
	Minor []uint32 `json:"minor_versions,omitempty"`
	// Unchecked is true if the server answered version 0 with success, which no program has. Versions
	// then has only versions of NFS that answered another call than NULL.
	Unchecked bool `json:"versions_unchecked,omitempty"`
	// Fault is the error that ended the examination of this program, or empty.
	Fault string `json:"fault,omitempty"`
}

// maxVersions is the largest number of versions that one scan tries, whatever range the server
// states.
const maxVersions = 16

// scan finds out which versions of a program the server supports. It calls version 0 first, which
// no program has, because the server's refusal states the range of versions. Then it calls each
// version of that range, but at most maxVersions; if the server states no range, it calls
// versions 1 to 5. The result has no version and no range if the server does not know the program. If
// a call fails, scan returns what it has found before.
func (b *prober) scan(ctx context.Context, number uint32, name string) (found *Program, err error) {
	found = &Program{Number: number, Name: name, Versions: []uint32{}}
	defer func() {
		if err != nil {
			found.Fault = err.Error()
		}
	}()
	low, high := uint32(1), uint32(5)
	err = b.null(ctx, number, 0)
	re, refused := errors.AsType[*rpc.ReplyError](err)
	switch {
	case err == nil:
		found.Unchecked = true
		if number == nfs3wire.Program {
			b.tryNFS(ctx, found)
		}
		return found, nil
	case !refused:
		return found, err
	case re.Denied:
		// Perhaps the server denies only version 0. The calls below show whether it denies every
		// version.
	case re.Stat == rpc.AcceptProgUnavail:
		return found, nil
	case re.Stat == rpc.AcceptProgMismatch:
		found.Low, found.High = re.Low, re.High
		low, high = max(re.Low, 1), re.High
	}
	if high >= low && high-low >= maxVersions {
		high = low + maxVersions - 1
	}
	for v := low; v <= high; v++ {
		err := b.null(ctx, number, v)
		if err == nil {
			found.Versions = append(found.Versions, v)
			if number == nfs3wire.Program && v == 4 {
				b.minors(ctx, found)
			}
			continue
		}
		re, refused := errors.AsType[*rpc.ReplyError](err)
		switch {
		case !refused:
			return found, err
		case re.Stat == rpc.AcceptProgUnavail && !re.Denied:
			return found, nil
		}
	}
	return found, nil
}

// tryNFS finds the versions of NFS of a server that answers NULL of any version: by GETATTR of no file,
// and by COMPOUNDs.
func (b *prober) tryNFS(ctx context.Context, found *Program) {
	step, cancel := b.step(ctx)
	defer cancel()
	_, err := b.conn.NFS3().Getattr(step, client.Handle{0, 0, 0, 0})
	if _, answered := errors.AsType[*client.StatusError](err); answered || err == nil {
		found.Versions = append(found.Versions, nfs3wire.Version)
	}
	if b.conn.Lost() && !b.redial(ctx) {
		return
	}
	if b.minors(ctx, found); len(found.Minor) > 0 {
		found.Versions = append(found.Versions, 4)
	}
}

// maxMinor is the highest minor version of NFS version 4 that is tried.
const maxMinor = 3

// minors finds out which minor versions the server supports, by COMPOUNDs without operations (RFC
// 8881 §16.2.3). Any status but NFS4_OK means that the server does not support the minor version.
func (b *prober) minors(ctx context.Context, found *Program) {
	for minor := range uint32(maxMinor + 1) {
		ctx, cancel := b.step(ctx)
		err := b.conn.Compound(ctx, minor, nil, nil)
		cancel()
		if err == nil {
			found.Minor = append(found.Minor, minor)
		}
	}
}
