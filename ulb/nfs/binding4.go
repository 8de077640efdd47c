package nfs

import (
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// MaxCompound is the largest size of the arguments of a COMPOUND, and of its results, in bytes.
// Directly placed items do not count. It has room for the largest transfer and 64 KiB of other
// operations.
const MaxCompound = MaxTransfer + 64<<10

// MaxOperations is the largest number of operations in one COMPOUND.
const MaxOperations = 128

// Binding4 is the binding of NFS version 4 (RFC 8267 §6). The eligible arguments are the
// data of WRITE and the text of a symbolic link. The eligible results are the data of READ
// and the text of READLINK. A compound may have any number of eligible items. No other item
// is placed directly.
var Binding4 = rpc.Binding{Procedures: []rpc.Procedure{
	wire.ProcNull: {Name: "NULL"},
	wire.ProcCompound: {
		Name: "COMPOUND", MaxArgs: MaxCompound, MaxResults: MaxCompound, Walk: walkCompound,
	},
}}

// walk4 holds those variables of one call of walkCompound that the skip functions of rows4
// change. It is pooled, so that a walk allocates nothing.
type walk4 struct {
	args  xdr.Decoder
	words int
}

var walks = sync.Pool{New: func() any { return new(walk4) }}

func (w *walk4) recycle() {
	*w = walk4{}
	walks.Put(w)
}

// walkCompound steps over the operations of a compound that have arrived, and adds up the
// sizes of their results. An operation that cannot be decoded ends the walk, but not the
// call: the server executes the operations before it.
func walkCompound(args *xdr.Decoder, s *rpc.Shape) {
	tag := args.Opaque(maxTag)
	minor := args.Uint32()
	n := args.Uint32()
	walk := walks.Get().(*walk4)
	defer walk.recycle()
	words, d := &walk.words, &walk.args
	*words = 12 + len(tag) + xdr.Pad(len(tag))
	once := false
	*d = *args // a copy, so that an error of the walk does not fail the call
	for i := uint32(0); i < min(n, MaxOperations); i++ {
		op := wire.OpNum(d.Uint32())
		if d.Err() != nil {
			break
		}
		*words += 8
		row := rowOf(op)
		if row == nil || row.skip == nil {
			break // the server ends the compound here as well
		}
		*words += row.most
		once = once || row.once
		row.skip(d, s, words)
		if d.Err() != nil {
			break
		}
	}
	s.Words = min(*words, MaxCompound)
	s.Payload = min(s.Payload, MaxTransfer)
	// In later minor versions the slots of sessions prevent a second execution.
	s.Once = once && minor == 0
}

// maxTag is the maximum length of a compound's tag, in bytes.
const maxTag = 1024
