package relay

import (
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// rows bound the calls that are carried: by the bindings of NFSv3 and MOUNT, if those have
// the procedure. A repeated call has another XID on its way to the server, so the server
// would execute it again. So the relay remembers replies: those of changing procedures of
// NFSv3, and those of all procedures that it does not know. NFSv4 is an exception, because
// its clients and servers detect repetitions themselves (RFC 8881 §2.10.6, RFC 7530
// §3.1.1).
type rows struct {
	nfs3, mount3 []rpc.Procedure
	// null is procedure 0 of every program, which has no arguments and no results (RFC 5531
	// §12.1). nfs, mount and other stand for procedures without a binding.
	null, nfs, mount, other rpc.Procedure
}

func newRows(maxReply int) rows {
	return rows{
		nfs3:   carried3(),
		mount3: nfs.BindingMount3.Procedures,
		null:   rpc.Procedure{Name: "NULL", MaxArgs: maxRecord},
		mount:  rpc.Procedure{Name: "MOUNT", MaxArgs: maxRecord, MaxResults: nfs.MaxMountReply},
		nfs:    rpc.Procedure{Name: "NFS", MaxArgs: maxRecord, MaxResults: maxReply},
		other:  rpc.Procedure{Name: "OTHER", MaxArgs: maxRecord, MaxResults: maxReply, Once: true},
	}
}

// carried3 are the rows of NFSv3 for calls that go on to a server, whose limits hold
// for the arguments. The text of READLINK goes back among the words, as it came.
func carried3() []rpc.Procedure {
	all := make([]rpc.Procedure, len(nfs.Binding3.Procedures))
	for i, p := range nfs.Binding3.Procedures {
		p.MaxArgs = maxRecord
		if walk := p.Walk; nfs3wire.Procedure(i) == nfs3wire.ProcReadlink {
			p.Walk = func(args *xdr.Decoder, s *rpc.Shape) {
				walk(args, s)
				s.Words, s.Payload = s.Words+s.Payload, 0
			}
		}
		all[i] = p
	}
	return all
}

// of is the row of a call.
func (r *rows) of(program, version, procedure uint32) *rpc.Procedure {
	row := &r.other
	known := []rpc.Procedure(nil)
	switch program {
	case mount3wire.Program:
		row = &r.mount
		if version == mount3wire.Version {
			known = r.mount3
		}
	case nfs3wire.Program:
		row = &r.nfs
		if version == nfs3wire.Version {
			known = r.nfs3
		}
	}
	switch {
	case uint64(procedure) < uint64(len(known)) && known[procedure].Name != "":
		return &known[procedure]
	case procedure == 0:
		return &r.null
	}
	return row
}
