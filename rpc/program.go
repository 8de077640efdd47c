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
	// Once is the procedure's, unless Walk says something else of a call: see
	// Shape.Once.
	Once bool
	// MaxArgs is the largest arguments, payload included.
	MaxArgs int
	// MaxResults is the largest results without eligible payload. It holds where
	// Walk does not say how large the results of a call get.
	MaxResults int
	// Walk, where set, walks over the arguments and writes down what it learns.
	// The arguments may be cut off after AdmitPrefix bytes, and items that were
	// placed are not there: Shape.Item steps over what may be placed. Without
	// Walk nothing may be.
	Walk func(args *xdr.Decoder, s *Shape)
}

// An Outcome is how a procedure ended.
type Outcome struct {
	Stat AcceptStat
	// Low and High are the versions that PROG_MISMATCH states; both 0: those that
	// are registered.
	Low, High uint32
	// Auth refuses the caller instead (MSG_DENIED), where not zero.
	Auth AuthStat
	// Block: with Call.Try, the call would have to wait. What was done since the
	// last Call.Mark is taken back, and Serve is called again on the Executor,
	// without Try. Lane says with what the call may stall.
	Block bool
	Lane  any
	// Pending: Call.Complete or Call.Resume will follow, once, from any
	// goroutine. The procedure called Call.Detach before. Pending stands above
	// everything else here.
	Pending bool
	// Dropped: no answer at all. Close: the connection ends as well, so that
	// a client which sends again only over a new connection does.
	Dropped, Close bool
	// Failed: the call was executed, and its results say that it did not do what
	// it was to. It is counted as StatusFailed, and is Success to the caller.
	Failed bool
}

// Outcomes that need no more words.
var (
	Done        = Outcome{Stat: Success}
	Failed      = Outcome{Stat: Success, Failed: true}
	GarbageArgs = Outcome{Stat: AcceptGarbageArgs}
	ProcUnavail = Outcome{Stat: AcceptProcUnavail}
	SystemErr   = Outcome{Stat: AcceptSystemErr}
	Dropped     = Outcome{Dropped: true}
	DropAndEnd  = Outcome{Dropped: true, Close: true}
)

// WouldBlock is the outcome of a Try that must go on on the Executor.
func WouldBlock(lane any) Outcome { return Outcome{Block: true, Lane: lane} }

// Denied is the outcome for a caller who may not call, and why.
func Denied(why AuthStat) Outcome { return Outcome{Auth: why} }

// good says that nothing speaks against going on.
func (o *Outcome) good() bool { return *o == Outcome{} }

// A Judgement is what admission comes to know of one call before anything of it
// is brought, and before memory is reserved for it.
type Judgement struct {
	// Shape is what the procedure's Walk found. A program may make it smaller.
	Shape
	// Room is the most words of results that can be carried back in one message, as
	// Shape.Words counts them: what the caller offers, less what stands around the
	// results. It is known when the program is asked.
	Room int
	// Early: the call can be answered now, from what is at hand: the caller may
	// not do what it asks for, or names something that is not there. Nothing is
	// brought or reserved for it; Serve finds Call.Early set.
	Early bool
	// Known: the caller was let in by something that a stranger does not have,
	// such as a handle of ours. Its connection is a stranger's no more.
	Known bool
	// Lane is with what the call may stall, as Outcome.Lane: comparable; nil
	// where that is not known. The payload memory of all calls of one lane is
	// bounded together.
	Lane any
	// Subject is the program's own, found again in Call.Subject.
	Subject any
}

// A Program is one RPC program, in one or several of its versions: programs with
// one number share it, each version served by one of them. Number, Versions and
// Binding are asked once, when it is registered.
type Program interface {
	Number() uint32
	// Versions are the lowest and highest served here.
	Versions() (low, high uint32)
	// Binding of a version, or nil where it is not served here.
	Binding(version uint32) *Binding
	Service
}

// A Fallback serves the calls of all programs that are not registered, such as a
// relay that carries them on.
type Fallback interface {
	// Procedure bounds a call as a row of a Binding. nil: PROC_UNAVAIL. It may be
	// called from many goroutines at once and must not block.
	Procedure(program, version, procedure uint32) *Procedure
	Service
}

// A Service decides on calls and serves them.
type Service interface {
	// Judge decides on a call by what of it is at hand, before anything of it is
	// brought and before anything is reserved: its caller (a.Conn, a.Cred) and its
	// purpose (j.Shape). Done lets the call in; every other outcome but Block and
	// Pending ends it. It may be called from many goroutines at once and must
	// not block.
	Judge(a *Arrived, j *Judgement) Outcome
	// Serve runs a procedure that exists: decodes c.Args, encodes the results
	// to w, which stands behind the reply's header. A result that does not
	// fit (w.Overflow) is the rpc package's business. It may be called from
	// many goroutines at once.
	Serve(c *Call, w *xdr.Writer) Outcome
}
