package client

import (
	"context"
	"errors"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// A ProbedProgram is an RPC program that a server knows.
type ProbedProgram struct {
	Number uint32 `json:"program"`
	Name   string `json:"name"`
	// Versions answered a NULL call.
	Versions []uint32 `json:"versions"`
	// Low and High are the range of PROG_MISMATCH, where the server said one.
	Low  uint32 `json:"low,omitempty"`
	High uint32 `json:"high,omitempty"`
	// Minor are the minor versions of NFS version 4.
	Minor []uint32 `json:"minor_versions,omitempty"`
}

// maxVersions bounds a scan, whatever range a server says.
const maxVersions = 16

// scan asks for the versions of a program: by one that nobody has, which brings
// the range, and then one by one. nil where the program is not there.
func (b *prober) scan(ctx context.Context, p struct {
	number uint32
	name   string
}) (*ProbedProgram, error) {
	found := &ProbedProgram{Number: p.number, Name: p.name, Versions: []uint32{}}
	low, high := uint32(1), uint32(5)
	err := b.null(ctx, p.number, 0)
	re, refused := errors.AsType[*rpc.ReplyError](err)
	switch {
	case err == nil:
		found.Versions = append(found.Versions, 0) // strange, and so it is said
	case !refused:
		return nil, err
	case re.Denied:
		// The versions tell whether it is the same for all.
	case re.Stat == rpc.AcceptProgUnavail:
		return nil, nil
	case re.Stat == rpc.AcceptProgMismatch:
		found.Low, found.High = re.Low, re.High
		low, high = max(re.Low, 1), re.High
	}
	if high >= low && high-low >= maxVersions {
		high = low + maxVersions - 1
	}
	for v := low; v <= high; v++ {
		err := b.null(ctx, p.number, v)
		if err == nil {
			found.Versions = append(found.Versions, v)
			if p.number == nfs3wire.Program && v == 4 {
				b.minors(ctx, found)
			}
			continue
		}
		re, refused := errors.AsType[*rpc.ReplyError](err)
		switch {
		case !refused:
			return nil, err
		case re.Stat == rpc.AcceptProgUnavail && !re.Denied:
			return nil, nil
		}
	}
	if len(found.Versions) == 0 && found.High == 0 {
		return nil, nil
	}
	return found, nil
}

// maxMinor is the highest minor version of NFS version 4 that is asked for.
const maxMinor = 3

// minors asks for the minor versions by COMPOUNDs without operations (RFC 8881
// §16.2.3). Errors mean that a version is not there.
func (b *prober) minors(ctx context.Context, found *ProbedProgram) {
	for minor := range uint32(maxMinor + 1) {
		var status uint32
		ctx, cancel := b.step(ctx)
		err := b.conn.Call(ctx, &rpc.Exchange{
			Program: nfs3wire.Program, Version: 4, Procedure: 1,
			Args: func(w *xdr.Writer) {
				w.Opaque(nil) // tag
				w.Uint32(minor)
				w.Uint32(0) // operations
			},
			MaxArgs: 12,
		}, func(d *xdr.Decoder) error {
			status = d.Uint32()
			return d.Err()
		})
		cancel()
		if err == nil && status == 0 {
			found.Minor = append(found.Minor, minor)
		}
	}
}
