package nfs

import (
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// MaxCompound is the largest size of the arguments of a COMPOUND, and of its results, in bytes. Directly
// placed items do not count. It has room for the largest transfer and 64 KiB of other operations.
const MaxCompound = MaxTransfer + 64<<10

// MaxOperations is the largest number of operations in one COMPOUND.
const MaxOperations = 128

// Binding4 is the binding of NFS version 4 (RFC 8267 §6). Eligible are the data of READ and WRITE, and the
// text of symbolic links: any number of items of a compound.
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

// A row4 describes one operation of a COMPOUND for Binding4: how to step over its arguments, and
// how large its result may be.
type row4 struct {
	// skip steps over the arguments. If the arguments determine the size of the result, as the
	// count of a READ does, skip adds that size, in bytes: to Shape.Payload if the result may be
	// placed directly, otherwise to *words.
	skip func(d *xdr.Decoder, s *rpc.Shape, words *int)
	// most is the largest size of the result after its status, in bytes. It excludes
	// eligible payload and the bytes that skip adds.
	most int
	// once is true if the operation must not be executed again when the client repeats the call.
	once bool
}

func rowOf(op wire.OpNum) *row4 {
	if op < 0 || int(op) >= len(rows4) {
		return nil
	}
	return &rows4[op]
}

// MaxAttributes is the largest size of the attributes of one object without an access
// control list, in bytes.
const MaxAttributes = 4096

// rows4 holds the row of each operation, indexed by operation number. An operation without
// a row is not served, so walkCompound stops at it.
var rows4 = [...]row4{
	wire.OpAccess:             {skip: fixed(4), most: wire.Access4ResOKMaxSize},
	wire.OpClose:              {skip: fixed(4 + wire.StateID4MaxSize), most: wire.StateID4MaxSize, once: true},
	wire.OpCommit:             {skip: fixed(12), most: wire.Commit4ResOKMaxSize},
	wire.OpCreate:             {skip: create4, most: wire.Create4ResOKMaxSize, once: true},
	wire.OpDelegpurge:         {skip: fixed(8), once: true},
	wire.OpDelegreturn:        {skip: fixed(wire.StateID4MaxSize), once: true},
	wire.OpGetattr:            {skip: bitmap, most: MaxAttributes},
	wire.OpGetFH:              {skip: nothing, most: wire.GetFH4ResOKMaxSize},
	wire.OpLink:               {skip: name, most: wire.Link4ResOKMaxSize, once: true},
	wire.OpLock:               {skip: lock4, most: maxDenied4, once: true},
	wire.OpLockt:              {skip: lockt4, most: maxDenied4},
	wire.OpLocku:              {skip: fixed(wire.Locku4ArgsMaxSize), most: wire.StateID4MaxSize, once: true},
	wire.OpLookup:             {skip: name},
	wire.OpLookupp:            {skip: nothing},
	wire.OpNverify:            {skip: nverify4},
	wire.OpOpen:               {skip: open4, most: MaxOpen4, once: true},
	wire.OpOpenattr:           {skip: fixed(4)},
	wire.OpOpenConfirm:        {skip: fixed(wire.OpenConfirm4ArgsMaxSize), most: wire.StateID4MaxSize, once: true},
	wire.OpOpenDowngrade:      {skip: fixed(wire.OpenDowngrade4ArgsMaxSize), most: wire.StateID4MaxSize, once: true},
	wire.OpPutFH:              {skip: putFH},
	wire.OpPutPubFH:           {skip: nothing},
	wire.OpPutRootFH:          {skip: nothing},
	wire.OpRead:               {skip: read4, most: wire.Read4ResOKMaxReducedSize},
	wire.OpReaddir:            {skip: readdir4},
	wire.OpReadlink:           {skip: readlink4, most: wire.Readlink4ResOKMaxReducedSize},
	wire.OpRemove:             {skip: name, most: wire.Remove4ResOKMaxSize, once: true},
	wire.OpRename:             {skip: rename4, most: wire.Rename4ResOKMaxSize, once: true},
	wire.OpRenew:              {skip: fixed(8)},
	wire.OpRestoreFH:          {skip: nothing},
	wire.OpSaveFH:             {skip: nothing},
	wire.OpSecInfo:            {skip: name, most: MaxSecinfo4},
	wire.OpSetattr:            {skip: setattr4, most: wire.Bitmap4MaxSize, once: true},
	wire.OpSetClientID:        {skip: setClientID4, most: maxClientInUse, once: true},
	wire.OpSetClientIDConfirm: {skip: fixed(16), once: true},
	wire.OpVerify:             {skip: verify4},
	wire.OpWrite:              {skip: write4, most: wire.Write4ResOKMaxSize, once: true},
	wire.OpReleaseLockOwner:   {skip: releaseLockOwner4, once: true},

	wire.OpBackchannelCtl:    {skip: backchannelCtl4},
	wire.OpBindConnToSession: {skip: fixed(wire.BindConnToSession4ArgsMaxSize), most: wire.BindConnToSession4ResOKMaxSize},
	wire.OpExchangeID:        {skip: exchangeID4, most: MaxExchangeID4},
	wire.OpCreateSession:     {skip: createSession4, most: wire.CreateSession4ResOKMaxSize},
	wire.OpDestroySession:    {skip: fixed(wire.SessionID4MaxSize)},
	wire.OpFreeStateID:       {skip: fixed(wire.StateID4MaxSize)},
	wire.OpSecInfoNoName:     {skip: fixed(4), most: MaxSecinfo4},
	wire.OpSequence:          {skip: fixed(wire.Sequence4ArgsMaxSize), most: wire.Sequence4ResOKMaxSize},
	wire.OpSetSSV:            {skip: setSSV4},
	wire.OpTestStateID:       {skip: testStateid4, most: 4},
	wire.OpDestroyClientID:   {skip: fixed(8)},
	wire.OpReclaimComplete:   {skip: fixed(4)},

	wire.OpAllocate:   {skip: fixed(wire.Allocate4ArgsMaxSize)},
	wire.OpCopy:       {skip: copy4, most: wire.Copy4ResOKMaxSize},
	wire.OpDeallocate: {skip: fixed(wire.Deallocate4ArgsMaxSize)},
	wire.OpIOAdvise:   {skip: ioAdvise4, most: wire.IOAdvise4ResOKMaxSize},
	wire.OpReadPlus:   {skip: readPlus4, most: 8 + 4 + wire.DataInfo4MaxSize}, // one hole: see nfs4.leastHole
	wire.OpSeek:       {skip: fixed(wire.Seek4ArgsMaxSize), most: wire.SeekRes4MaxSize},
	wire.OpClone:      {skip: fixed(wire.Clone4ArgsMaxSize)},

	wire.OpGetXattr:    {skip: name, most: 4 + MaxXattr},
	wire.OpSetXattr:    {skip: setXattr4, most: wire.ChangeInfo4MaxSize},
	wire.OpListXattrs:  {skip: listXattrs4},
	wire.OpRemoveXattr: {skip: name, most: wire.ChangeInfo4MaxSize},
}

// MaxDeniedOwner is the length, in bytes, of the longest lock-owner that the server names when it denies a
// lock. A Linux client has room for lock-owners as long as its own, and no more.
const MaxDeniedOwner = 20

// Largest sizes of results, in bytes, where the XDR definition sets no limit, or a higher one.
// maxClientInUse is enough for the address of the other client in a result with NFS4ERR_CLID_INUSE, and
// maxDenied4 for a conflicting lock.
const (
	// MaxOpen4 is enough for the result of OPEN, including a delegation with its permissions.
	MaxOpen4 = 256
	// MaxSecinfo4 is enough for the flavors of an export.
	MaxSecinfo4 = 256
	// MaxExchangeID4 is enough for the server's description of itself: owner, scope and implementation.
	MaxExchangeID4 = 1024
	maxClientInUse = 256
	maxDenied4     = wire.Lock4DeniedMaxSize - wire.NFS4OpaqueLimit + MaxDeniedOwner
)

// nothing is the skip function of operations without arguments.
func nothing(*xdr.Decoder, *rpc.Shape, *int) {}

// fixed returns the skip function of operations whose arguments are n bytes long.
func fixed(n int) func(*xdr.Decoder, *rpc.Shape, *int) {
	return func(d *xdr.Decoder, _ *rpc.Shape, _ *int) { d.Skip(n) }
}

// name is the skip function of operations whose only argument is a name.
func name(d *xdr.Decoder, _ *rpc.Shape, _ *int) { d.Opaque(1 << 30) }

func bitmap(d *xdr.Decoder, _ *rpc.Shape, _ *int) { d.Skip(4 * d.Count(1<<28, 4)) }

// putFH stores the first handle of a compound in Shape.Object.
func putFH(d *xdr.Decoder, s *rpc.Shape, _ *int) {
	h := d.Opaque(wire.NFS4FHSize)
	if s.Object == nil && d.Err() == nil {
		s.Object = h
	}
}

func create4(d *xdr.Decoder, s *rpc.Shape, _ *int) {
	switch wire.FType4(d.Uint32()) {
	case wire.NF4Lnk:
		s.Item(d)
	case wire.NF4Blk, wire.NF4Chr:
		d.Skip(wire.SpecData4MaxSize)
	}
	d.Opaque(1 << 30)
	var a wire.FAttr4
	a.Decode(d)
}

func read4(d *xdr.Decoder, s *rpc.Shape, words *int) {
	d.Skip(wire.StateID4MaxSize + 8)
	s.Payload += int(min(d.Uint32(), MaxTransfer))
}

func readlink4(_ *xdr.Decoder, s *rpc.Shape, _ *int) { s.Payload += MaxPath }

func readdir4(d *xdr.Decoder, _ *rpc.Shape, words *int) {
	d.Skip(8 + wire.NFS4VerifierSize + 4)
	*words += int(min(d.Uint32(), MaxDirectory))
	d.Skip(4 * d.Count(1<<28, 4))
}

func write4(d *xdr.Decoder, s *rpc.Shape, _ *int) {
	d.Skip(wire.StateID4MaxSize + 8 + 4)
	s.Item(d)
}

func testStateid4(d *xdr.Decoder, _ *rpc.Shape, words *int) {
	n := d.Count(1<<20, wire.StateID4MaxSize)
	d.Skip(n * wire.StateID4MaxSize)
	*words += 4 * n
}

func readPlus4(d *xdr.Decoder, _ *rpc.Shape, words *int) {
	d.Skip(wire.StateID4MaxSize + 8)
	*words += int(min(d.Uint32(), MaxTransfer))
}

func setXattr4(d *xdr.Decoder, _ *rpc.Shape, _ *int) {
	d.Skip(4)
	d.Opaque(1 << 30)
	d.Opaque(1 << 30)
}

func listXattrs4(d *xdr.Decoder, _ *rpc.Shape, words *int) {
	d.Skip(8)
	*words += int(min(d.Uint32(), maxXattrNames))
}

// Each of the following skip functions decodes the arguments into a value and discards the
// value. They are separate functions, because a value that is decoded through an interface
// or a type parameter is allocated on the heap.

func lock4(d *xdr.Decoder, _ *rpc.Shape, _ *int) { new(wire.Lock4Args).Decode(d) }

func lockt4(d *xdr.Decoder, _ *rpc.Shape, _ *int) { new(wire.Lockt4Args).Decode(d) }

func nverify4(d *xdr.Decoder, _ *rpc.Shape, _ *int) { new(wire.Nverify4Args).Decode(d) }

func open4(d *xdr.Decoder, _ *rpc.Shape, _ *int) { new(wire.Open4Args).Decode(d) }

func rename4(d *xdr.Decoder, _ *rpc.Shape, _ *int) { new(wire.Rename4Args).Decode(d) }

func setattr4(d *xdr.Decoder, _ *rpc.Shape, _ *int) { new(wire.Setattr4Args).Decode(d) }

func setClientID4(d *xdr.Decoder, _ *rpc.Shape, _ *int) { new(wire.SetClientID4Args).Decode(d) }

func verify4(d *xdr.Decoder, _ *rpc.Shape, _ *int) { new(wire.Verify4Args).Decode(d) }

func releaseLockOwner4(d *xdr.Decoder, _ *rpc.Shape, _ *int) {
	new(wire.ReleaseLockOwner4Args).Decode(d)
}

func backchannelCtl4(d *xdr.Decoder, _ *rpc.Shape, _ *int) { new(wire.BackchannelCtl4Args).Decode(d) }

func exchangeID4(d *xdr.Decoder, _ *rpc.Shape, _ *int) { new(wire.ExchangeID4Args).Decode(d) }

func createSession4(d *xdr.Decoder, _ *rpc.Shape, _ *int) { new(wire.CreateSession4Args).Decode(d) }

func setSSV4(d *xdr.Decoder, _ *rpc.Shape, _ *int) { new(wire.SetSsv4Args).Decode(d) }

func copy4(d *xdr.Decoder, _ *rpc.Shape, _ *int) { new(wire.Copy4Args).Decode(d) }

func ioAdvise4(d *xdr.Decoder, _ *rpc.Shape, _ *int) { new(wire.IOAdvise4Args).Decode(d) }
