package nfs

import (
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// MaxCompound is the largest arguments and results of a COMPOUND, without what is
// placed, in bytes: those of its largest transfer, and room for what goes with it.
const MaxCompound = MaxTransfer + 64<<10

// MaxOperations is how many operations one COMPOUND may have.
const MaxOperations = 128

// Binding4 is the binding of NFS version 4 (RFC 8267 §6): the data of WRITE and the text
// of a symbolic link among arguments, the data of READ and the text of READLINK among
// results, as many as a compound has. Nothing else is ever placed directly.
var Binding4 = rpc.Binding{Procedures: []rpc.Procedure{
	wire.ProcNull: {Name: "NULL"},
	wire.ProcCompound: {
		Name: "COMPOUND", MaxArgs: MaxCompound, MaxResults: MaxCompound, Walk: walkCompound,
	},
}}

// walk4 is what a walk passes to the rows of operations by pointer.
type walk4 struct {
	args  xdr.Decoder
	words int
}

var walks = sync.Pool{New: func() any { return new(walk4) }}

func (w *walk4) end() {
	*w = walk4{}
	walks.Put(w)
}

// walkCompound steps over the operations of a compound, as far as they are here, and
// adds up what they need. What cannot be decoded ends the walk, not the call: the
// operations before it are executed.
func walkCompound(args *xdr.Decoder, s *rpc.Shape) {
	tag := args.Opaque(maxTag)
	minor := args.Uint32()
	n := args.Uint32()
	walk := walks.Get().(*walk4)
	defer walk.end()
	words, d := &walk.words, &walk.args
	*words = 12 + len(tag) + xdr.Pad(len(tag))
	once := false
	*d = *args // which may fail
	for i := uint32(0); i < min(n, MaxOperations); i++ {
		op := wire.OpNum(d.Uint32())
		if d.Err() != nil {
			break
		}
		*words += 8
		row := rowOf(op)
		if row == nil || row.skip == nil {
			break // where the compound ends as well
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
	// Later minor versions have slots.
	s.Once = once && minor == 0
}

// maxTag is the longest tag of a compound.
const maxTag = 1024
