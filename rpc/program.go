package rpc

import "github.com/nfsrdmad/nfsrdmad/rpc/xdr"

// A Binding is an upper layer's statement about one version of a program: which items may be
// placed directly, and how large calls and replies get (RFC 8166 §6). Every program needs one, on
// any transport.
type Binding struct {
	// Procedures by number; a procedure without a Name does not exist.
	Procedures []Procedure
}

// A Procedure is one row of a Binding. Sizes are bytes of encoded XDR without RPC headers.
type Procedure struct {
	Name string
	// Once holds for all calls of the procedure, unless Walk sets Shape.Once otherwise.
	Once bool
	// MaxArgs is the largest size of the arguments, payload included.
	MaxArgs int
	// MaxResults is the largest size of the results without eligible payload. It holds for calls
	// for which Walk does not set Shape.Words.
	MaxResults int
	// Walk, if not nil, walks over the arguments and sets s. The arguments may be cut off after
	// AdmitPrefix bytes, and items placed beside the message are missing: Walk calls Shape.Item
	// for each item that may be placed. Without Walk no item may be placed.
	Walk func(args *xdr.Decoder, s *Shape)
}

// An Outcome is the accept status of a reply, with the versions that PROG_MISMATCH carries
// (RFC 5531 §9).
type Outcome struct {
	Stat AcceptStat
	// Low and High are the versions for PROG_MISMATCH. If both are 0, the registered ones are
	// sent.
	Low, High uint32
	// Auth, if not AuthOK, refuses the caller (MSG_DENIED).
	Auth AuthStat
	// Block: with Call.Try set, the call would have to wait. The server undoes everything since
	// the last Call.Mark, and has the executor call Serve again without Try. Lane names the
	// resource that the call may wait for.
	Block bool
	Lane  any
	// Pending: the program will call Call.Complete or Call.Resume once, from any goroutine. It
	// has called Call.Detach before. If Pending is set, the other fields do not count.
	Pending bool
	// Dropped: the call gets no answer. Close: the connection ends as well, because some clients
	// send a call again only on a new connection.
	Dropped, Close bool
	// Failed: the call was executed, and its results report a failure. The caller gets Success;
	// the server counts StatusFailed.
	Failed bool
}

// Common outcomes.
var (
	Done        = Outcome{Stat: Success}
	Failed      = Outcome{Stat: Success, Failed: true}
	GarbageArgs = Outcome{Stat: AcceptGarbageArgs}
	ProcUnavail = Outcome{Stat: AcceptProcUnavail}
	SystemErr   = Outcome{Stat: AcceptSystemErr}
	Dropped     = Outcome{Dropped: true}
	DropAndEnd  = Outcome{Dropped: true, Close: true}
)

// WouldBlock is the outcome of a Try that has to continue on the executor.
func WouldBlock(lane any) Outcome { return Outcome{Block: true, Lane: lane} }

// Denied is the outcome for a caller that may not call, with the reason.
func Denied(why AuthStat) Outcome { return Outcome{Auth: why} }

// good reports that the call may go on.
func (o *Outcome) good() bool { return *o == Outcome{} }

// A Judgement holds the findings of admission about a call, made before the transport brings the
// rest of the call or reserves memory for it.
type Judgement struct {
	// Shape is the result of the procedure's Walk. A program may make it smaller.
	Shape
	// Room is the largest size of results that one message can carry back, counted like
	// Shape.Words: the room that the caller offers, less the headers around the results. It is
	// set when Judge is called.
	Room int
	// Early: the program can answer the call now, from the part that has arrived, for example
	// because the caller may not do this, or names an object that does not exist. The transport
	// brings and reserves nothing for it, and Call.Early is set in Serve.
	Early bool
	// Known: the caller showed something that strangers do not have, such as one of this server's
	// file handles. Its connection then counts as known.
	Known bool
	// Lane names the resource that the call may wait for, as Outcome.Lane. It is comparable, and
	// nil if unknown. The payload memory of all calls of one lane is bounded together.
	Lane any
	// Subject belongs to the program. Call.Subject returns it.
	Subject any
}

// A Program is one RPC program in one or more versions. Several Programs may share a number, if
// each version has one of them. Number, Versions and Binding are called once, at registration.
type Program interface {
	Number() uint32
	// Versions returns the lowest and the highest version of this Program.
	Versions() (low, high uint32)
	// Binding returns the Binding of a version, or nil if this Program does not serve it.
	Binding(version uint32) *Binding
	Service
}

// A Fallback serves the calls of all unregistered programs. A relay is an example.
type Fallback interface {
	// Procedure bounds a call like a row of a Binding. If it returns nil, the answer is
	// PROC_UNAVAIL. It may be called from many goroutines at once and must not block.
	Procedure(program, version, procedure uint32) *Procedure
	Service
}

// A Service accepts calls and serves them.
type Service interface {
	// Judge decides on a call by its caller (a.Conn, a.Cred) and its purpose (j.Shape), from the
	// part that has arrived, before the transport brings the rest or reserves memory. Done
	// accepts the call; every other outcome ends it, and Block and Pending are not allowed. It
	// may be called from many goroutines at once and must not block.
	Judge(a *Arrived, j *Judgement) Outcome
	// Serve runs an existing procedure: it decodes c.Args, and encodes the results to w, which is
	// positioned after the reply's header. The rpc package handles results that do not fit
	// (w.Overflow). It may be called from many goroutines at once.
	Serve(c *Call, w *xdr.Writer) Outcome
}
