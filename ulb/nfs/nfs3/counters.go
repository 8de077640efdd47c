package nfs3

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// stripes is the number of success counters of each procedure. Connections use different ones, by the connection's ID,
// so that processors rarely write to the same memory.
const stripes = 16

// counters counts the procedures executed, without a lock.
type counters struct {
	done [stripes]struct {
		n [wire.ProcCommit + 1]atomic.Uint64
		_ [64]byte
	}
	failed [wire.ProcCommit + 1][places]atomic.Uint64
}

// The statuses of RFC 1813 §2.6 are two ranges of numbers: place gives each of them an index.
const (
	places     = lastOfUnix + 1 + wire.NFS3ErrJukebox - firstOfNFS + 1
	lastOfUnix = wire.NFS3ErrRemote
	firstOfNFS = wire.NFS3ErrBadHandle
)

func place(s wire.NFSStat3) wire.NFSStat3 {
	switch {
	case s >= 0 && s <= lastOfUnix:
		return s
	case s >= firstOfNFS && s <= wire.NFS3ErrJukebox:
		return lastOfUnix + 1 + s - firstOfNFS
	}
	return lastOfUnix + 1 + wire.NFS3ErrServerFault - firstOfNFS
}

func statusAt(place int) wire.NFSStat3 {
	if s := wire.NFSStat3(place); s <= lastOfUnix {
		return s
	}
	return firstOfNFS + wire.NFSStat3(place) - lastOfUnix - 1
}

// count counts a procedure that has ended, also in the account of the export of its handle. Its results begin with the
// status, except those of NULL.
func (k *counters) count(c *rpc.Call, results []byte) {
	proc := wire.Procedure(c.Header.Procedure)
	status := wire.NFS3OK
	if proc != wire.ProcNull && len(results) >= 4 {
		status = wire.NFSStat3(binary.BigEndian.Uint32(results))
	}
	if status == wire.NFS3OK {
		k.done[c.Conn.ID%stripes].n[proc].Add(1)
	} else {
		k.failed[proc][place(status)].Add(1)
	}
	if o, named := c.Subject.(*export.Opened); named {
		o.Export.Did(c.Conn, kindOf(proc), status != wire.NFS3OK)
	}
}

func kindOf(p wire.Procedure) export.Kind {
	switch p {
	case wire.ProcRead:
		return export.Reading
	case wire.ProcWrite:
		return export.Writing
	}
	return export.Other
}

// OperationStats is the number of times that one procedure ended with one status.
type OperationStats struct {
	Procedure wire.Procedure
	Status    wire.NFSStat3
	Count     uint64
}

// Stats returns the counts of all procedures and statuses that occurred since the start. A call that is answered from
// the reply cache was counted when it was executed.
func (p *Program) Stats() (all []OperationStats) {
	k := &p.counters
	for proc := range k.failed {
		var done uint64
		for i := range k.done {
			done += k.done[i].n[proc].Load()
		}
		if done > 0 {
			all = append(all, OperationStats{wire.Procedure(proc), wire.NFS3OK, done})
		}
		for at := range k.failed[proc] {
			if n := k.failed[proc][at].Load(); n > 0 {
				all = append(all, OperationStats{wire.Procedure(proc), statusAt(at), n})
			}
		}
	}
	return all
}
