package nfs4test

import (
	"testing"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

func TestValid(t *testing.T) {
	for _, c := range []struct {
		minor  uint32
		op     wire.OpNum
		status wire.NFSStat4
		want   bool
	}{
		{0, wire.OpLookup, wire.NFS4OK, true},
		{0, wire.OpLookup, wire.NFS4ErrSymlink, true},
		{0, wire.OpLookup, wire.NFS4ErrExist, false},
		{0, wire.OpRead, wire.NFS4ErrStaleStateID, true},
		{1, wire.OpRead, wire.NFS4ErrStaleStateID, false},
		{0, wire.OpRead, wire.NFS4ErrWrongType, false},
		{1, wire.OpRead, wire.NFS4ErrWrongType, true},
		{2, wire.OpRead, wire.NFS4ErrWrongType, true},
		{0, wire.OpNverify, wire.NFS4ErrResource, true},
		{1, wire.OpNverify, wire.NFS4ErrResource, false},
		{1, wire.OpRenew, wire.NFS4ErrNotSupp, true},
		{1, wire.OpRenew, wire.NFS4OK, false},
		{1, wire.OpRenew, wire.NFS4ErrOpNotInSession, true},
		{0, wire.OpRenew, wire.NFS4ErrOpNotInSession, false},
		{1, wire.OpExchangeID, wire.NFS4ErrOpNotInSession, false},
		{2, wire.OpCopy, wire.NFS4ErrNotSupp, true},
		{1, wire.OpSeek, wire.NFS4ErrNotSupp, false},
		{0, wire.OpIllegal, wire.NFS4ErrOpIllegal, true},
		{0, wire.OpIllegal, wire.NFS4ErrInvalid, false},
		{1, wire.OpIllegal, wire.NFS4OK, false},
	} {
		if got := Valid(c.minor, c.op, c.status); got != c.want {
			t.Errorf("4.%d %v %v: %v", c.minor, c.op, c.status, got)
		}
	}
}

// The tables have a row for each operation, except ILLEGAL.
func TestEachOperationHasErrors(t *testing.T) {
	for op := wire.OpAccess; op <= wire.OpReleaseLockOwner; op++ {
		if valid40[op] == "" {
			t.Errorf("4.0: %v", op)
		}
	}
	for op := wire.OpAccess; op <= wire.OpReclaimComplete; op++ {
		if valid41[op] == "" {
			t.Errorf("4.1: %v", op)
		}
	}
	for op := wire.OpAllocate; op <= wire.OpRemoveXattr; op++ {
		if valid42[op] == "" {
			t.Errorf("4.2: %v", op)
		}
	}
}
