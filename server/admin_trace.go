package server

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/server/admin"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// tracedCalls is the number of calls that a trace keeps for a reader that is slower than the calls come. What comes beyond
// that is left out, and counted.
const tracedCalls = 1024

// Trace implements admin.Daemon.
func (a *administration) Trace(ctx context.Context, choice admin.Choice) (iter.Seq[*admin.Traced], error) {
	of, err := a.traceFilter(&choice)
	if err != nil {
		return nil, err
	}
	type ending struct {
		rpc.Ending
		at time.Time
	}
	ended, dropped := make(chan *ending, tracedCalls), new(atomic.Uint64)
	stop := a.rpc.Trace(func(e *rpc.Ending) {
		if !of.has(e) {
			return
		}
		select {
		case ended <- &ending{*e, time.Now()}: // its steps belong to the call's trace alone
		default:
			dropped.Add(1)
		}
	})
	context.AfterFunc(ctx, stop)
	return func(yield func(*admin.Traced) bool) {
		for {
			select {
			case <-ctx.Done():
				return
			case e := <-ended:
				d := a.describeEnding(&e.Ending)
				d.Time, d.Dropped = e.at, dropped.Swap(0)
				if !yield(d) {
					return
				}
			}
		}
	}, nil
}

// A traceFilter chooses calls.
type traceFilter struct {
	clients []netip.Prefix // nil means all
	export  uint32         // 0 means all; the mounts below an export belong to it
	table   *export.Table
}

func (a *administration) traceFilter(c *admin.Choice) (f traceFilter, err error) {
	if c.Client != "" {
		if p, err := netip.ParsePrefix(c.Client); err == nil {
			f.clients = []netip.Prefix{p.Masked()}
		} else if at, err := netip.ParseAddr(c.Client); err == nil {
			f.clients = []netip.Prefix{netip.PrefixFrom(at.Unmap().WithZone(""), at.Unmap().BitLen())}
		} else {
			all, err := a.clientsNamed(c.Client, false)
			if err != nil {
				return f, err
			}
			for is := range all {
				f.clients = append(f.clients, clientaddr.Network(is.Address()))
			}
		}
	}
	f.table = a.exports.Table
	if c.Export != "" {
		for _, e := range a.exports.All() {
			if e.Name == c.Export {
				f.export = e.ID
			}
		}
		if f.export == 0 {
			return f, noExport(c.Export)
		}
	}
	return f, nil
}

func (f *traceFilter) has(e *rpc.Ending) bool {
	if f.clients != nil {
		from := e.Conn.Peer.Addr().Unmap().WithZone("")
		if !slices.ContainsFunc(f.clients, func(p netip.Prefix) bool { return p.Contains(from) }) {
			return false
		}
	}
	if f.export == 0 {
		return true
	}
	if o, ok := e.Subject.(*export.Opened); ok && o != nil && f.shows(o.Export) {
		return true
	}
	return slices.ContainsFunc(e.Steps, func(s rpc.Step) bool {
		of := f.table.ByID(s.Group)
		return s.Group == f.export || of != nil && f.shows(of)
	})
}

func (f *traceFilter) shows(e *export.Export) bool {
	m := e.Mount()
	return e.ID == f.export || m != nil && m.TopID == f.export
}

func (a *administration) describeEnding(e *rpc.Ending) *admin.Traced {
	d := &admin.Traced{
		Seconds: float64(e.Nanoseconds) / 1e9, Client: e.Conn.Peer.String(), Transport: e.Conn.Transport, XID: e.XID,
		Program: programName(e.Program), Version: e.Version, Operation: procedureOf(e), Status: statusOf(e),
	}
	for _, s := range e.Steps {
		d.Operations = append(d.Operations, operationName(s.Number))
	}
	if len(e.Steps) > 0 {
		d.Operation = operationName(mainStep(e.Steps))
	}
	d.File = a.fileOfEnding(e)
	return d
}

// statusOf returns the status in the results of a call, or that of RPC.
func statusOf(e *rpc.Ending) string {
	if e.Answered && (e.Status == rpc.StatusSuccess || e.Status == rpc.StatusFailed) && e.Name != "NULL" {
		switch {
		case e.Program == nfs4wire.Program && e.Version == nfs4wire.Version:
			return nfs4wire.NFSStat4(e.Answer).String()
		case e.Program == nfs3wire.Program:
			return nfs3wire.NFSStat3(e.Answer).String()
		case e.Program == mount3wire.Program && e.Name == "MNT":
			return mount3wire.Stat3(e.Answer).String()
		}
	}
	return e.Status.String()
}

// procedureOf returns the name of a call's procedure, or its number.
func procedureOf(e *rpc.Ending) string { return cmp.Or(e.Name, fmt.Sprint("proc-", e.Procedure)) }

// mainStep returns the operation that stands for a COMPOUND: the first that does more than to choose an object.
func mainStep(steps []rpc.Step) uint32 {
	for _, s := range steps {
		switch nfs4wire.OpNum(s.Number) {
		case nfs4wire.OpSequence, nfs4wire.OpPutFH, nfs4wire.OpPutRootFH, nfs4wire.OpSaveFH, nfs4wire.OpRestoreFH:
		default:
			return s.Number
		}
	}
	return steps[len(steps)-1].Number
}

func operationName(number uint32) string {
	return strings.TrimPrefix(nfs4wire.OpNum(number).String(), "OP_")
}

// fileOfEnding returns the object of a call, or nil.
func (a *administration) fileOfEnding(e *rpc.Ending) *admin.File {
	if o, ok := e.Subject.(*export.Opened); ok && o != nil && len(e.Steps) == 0 {
		f := a.file(&state.FileKey{Domain: state.DomainOf(o.Export.FS), Handle: o.Handle}, o.Export.ID)
		return &f
	}
	for _, s := range slices.Backward(e.Steps) {
		h, ok := vfs.MakeHandle(s.Object())
		of := a.exports.Table.ByID(s.Group)
		if ok && of != nil {
			f := a.file(&state.FileKey{Domain: state.DomainOf(of.FS), Handle: h}, of.ID)
			return &f
		}
	}
	return nil
}
