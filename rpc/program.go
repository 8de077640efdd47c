package rpc

import "github.com/nfsrdmad/nfsrdmad/rpc/xdr"

// A Binding is what an upper layer states about one version of a program: which
// items may be placed directly, and how large things get (RFC 8166 §6). A
// program without one is not served over any transport.
type Binding struct {
	// Procedures by number; a procedure without a Name does not exist.
	Procedures []Procedure
}

// A Procedure is one row of a Binding. Sizes are in bytes of encoded XDR
// without RPC headers.
type Procedure struct {
	Name string
	// Once: a retransmission is answered from the duplicate-request cache, and
	// the call is not executed when its largest reply cannot be carried back.
	Once bool
	// MaxArgs is the largest arguments, payload included.
	MaxArgs int
	// MaxResults is the largest results without eligible payload, where that
	// does not depend on the arguments.
	MaxResults int
	// Size, where set, looks at the arguments (perhaps cut off after
	// AdmitPrefix bytes; args is a copy of the cursor) and says how large
	// the results get: words without eligible payload, and payload. Less than
	// nothing means that no such arguments are served (GARBAGE_ARGS).
	Size func(args xdr.Decoder) (words, payload int)
	// Eligible, where set, says whether every placed item is one that the
	// binding lets be placed, judged from the arguments around it. nil: no
	// argument is eligible. args is a copy of the cursor, without items.
	Eligible func(args xdr.Decoder, placed []Placed) bool
	// ArgsPrefix, where set, is how many bytes of the arguments tell two calls
	// apart for the duplicate-request cache: up to where payload starts. At
	// most MaxArgsPrefix of them count.
	ArgsPrefix func(args xdr.Decoder) int
}

// An Outcome is how a procedure ended.
type Outcome struct {
	Stat AcceptStat
	// Auth refuses the caller instead (MSG_DENIED), where not zero.
	Auth AuthStat
	// Block: with Call.Try, the call has done nothing and is to be run
	// again on the Executor; Lane says with what it may stall.
	Block bool
	Lane  any
	// Pending: Call.Complete will tell the outcome, from any goroutine. The
	// call was detached by its procedure (Call.Detach) before. Pending stands
	// above everything else here, and nothing was written.
	Pending bool
	// Dropped: no answer at all.
	Dropped bool
}

// Outcomes that need no more words.
var (
	Done        = Outcome{Stat: Success}
	GarbageArgs = Outcome{Stat: AcceptGarbageArgs}
	ProcUnavail = Outcome{Stat: AcceptProcUnavail}
	SystemErr   = Outcome{Stat: AcceptSystemErr}
)

// WouldBlock is the outcome of a Try that must be run on the Executor.
func WouldBlock(lane any) Outcome { return Outcome{Block: true, Lane: lane} }

// A Program is one RPC program in all its versions. Number, Versions and
// Binding are asked once, when it is registered.
type Program interface {
	Number() uint32
	// Binding of a version, or nil where it is not served.
	Binding(version uint32) *Binding
	// Versions are the lowest and highest served, for PROG_MISMATCH.
	Versions() (low, high uint32)
	// Authorize says whether the connection may call at all, before anything
	// is decoded: AuthOK or the reason for MSG_DENIED.
	Authorize(c *Call) AuthStat
	// Serve runs a procedure that exists: decodes c.Args, encodes the results
	// to w, which stands behind the reply's header. A result that does not
	// fit (w.Overflow) is the rpc package's business. It may be called from
	// many goroutines at once.
	Serve(c *Call, w *xdr.Writer) Outcome
}
