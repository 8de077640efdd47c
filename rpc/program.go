package rpc

import (
	"fmt"
	"maps"
	"slices"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// A Binding describes one version of a program: which items are eligible for direct data placement,
// and how large calls and replies get (RFC 8166 §6). Every transport needs it.
type Binding struct {
	// Procedures has one row for each procedure number. A row without a Name means that there is no
	// such procedure.
	Procedures []Procedure
}

// A Procedure is one row of a Binding. Sizes are bytes of encoded XDR without RPC headers.
type Procedure struct {
	Name string
	// Once is true if the procedure changes something, so that a repeated call must not be executed
	// again. It is the default of Shape.Once; Walk may set another value for a call.
	Once bool
	// MaxArgs is the largest size of the arguments, payload included.
	MaxArgs int
	// MaxResults is the largest size of the results without eligible payload. It is the default of
	// Shape.Words.
	MaxResults int
	// Walk, if not nil, walks over the arguments and sets s. The arguments may be cut off after
	// AdmitPrefix bytes, and do not contain the items in Read chunks. Walk calls Shape.Item for
	// each item that may be in a Read chunk. If Walk is nil, no item may be in one.
	Walk func(args *xdr.Decoder, s *Shape)
}

// An Outcome is the result of Verify, Judge or Serve for one call: the accept status of the reply
// (RFC 5531 §9), or that the call gets no such reply, or that it continues later.
type Outcome struct {
	Stat AcceptStat
	// Low and High are the versions for PROG_MISMATCH. If both are 0, the server sends the lowest
	// and the highest registered version.
	Low, High uint32
	// Auth, if not AuthOK, refuses the caller (MSG_DENIED).
	Auth AuthStat
	// Block is true if Call.Try is set and the call would have to wait. The server then restores
	// the state of the last Call.Mark, and the executor calls Serve again without Try. Lane names
	// the resource that the call may wait for.
	Block bool
	Lane  any
	// Pending is true if the program will end or continue this call later, by one call of
	// Call.Complete or Call.Resume from any goroutine. The program must have called Call.Detach. If
	// Pending is set, the server ignores the other fields.
	Pending bool
	// Dropped is true if the call gets no reply. Close is true if the server also closes the
	// connection, because some clients repeat a call only on a new connection.
	Dropped, Close bool
	// Failed is true if the call was executed and its results report a failure. The reply's status
	// is Success; the server counts the call as StatusFailed.
	Failed bool
}

// Common outcomes.
var (
	Done        = Outcome{Stat: Success}
	Failed      = Outcome{Stat: Success, Failed: true}
	GarbageArgs = Outcome{Stat: AcceptGarbageArgs}
	SystemErr   = Outcome{Stat: AcceptSystemErr}
	Dropped     = Outcome{Dropped: true}
	DropAndEnd  = Outcome{Dropped: true, Close: true}
)

// WouldBlock returns the outcome of a Serve with Call.Try that has to continue on the executor.
func WouldBlock(lane any) Outcome { return Outcome{Block: true, Lane: lane} }

// Denied returns the outcome for a call whose caller is refused, with the reason.
func Denied(why AuthStat) Outcome { return Outcome{Auth: why} }

// A Judgement holds the facts that Admit and the program's Judge find out about a call, before the
// transport receives the rest of the call or reserves memory for it.
type Judgement struct {
	// Shape is the result of the procedure's Walk. Judge may lower its sizes.
	Shape
	// Room is the largest size of the results that fits into the reply message, in bytes without
	// eligible payload: the space that the caller offers, less the headers around the results. It
	// is set before Judge is called.
	Room int
	// Judge sets Early if the program can answer from the part of the call that has arrived, for
	// example because the caller lacks permission, or names an object that does not exist. The
	// transport then reserves no memory for the call and does not receive the rest. Call.Early is
	// then true in Serve.
	Early bool
	// Judge sets Known if the call contains something that only a client of this server has, such
	// as one of its file handles. Conn.Known then returns true.
	Known bool
	// Lane names the resource that the call may wait for, like Outcome.Lane. It is a comparable
	// value, or nil if the resource is unknown. All calls of one lane share one limit on payload
	// memory.
	Lane any
	// Subject is data of the program. The server copies it to Call.Subject.
	Subject any
}

// A Program is one RPC program in one or more versions. Several Programs may have the same number
// if they serve different versions. Number, Versions and Binding are called once, at registration.
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
	// Procedure returns the size limits of a procedure, like a row of a Binding. If it returns nil,
	// the server replies PROC_UNAVAIL. It may be called from many goroutines at once and must not
	// block.
	Procedure(program, version, procedure uint32) *Procedure
	Service
}

// A Service accepts calls and serves them.
type Service interface {
	// Judge decides on a call by its caller (a.Conn, a.Cred) and its purpose (j.Shape), from the
	// part that has arrived, before the transport receives the rest or reserves memory. Done
	// accepts the call; every other outcome ends it. Judge must not return Block or Pending. It may
	// be called from many goroutines at once and must not block.
	Judge(a *Arrived, j *Judgement) Outcome
	// Serve runs one call: it decodes c.Args, and encodes the results to w, which already holds the
	// reply's header. Serve need not check w.Overflow: if the results do not fit, the rpc package
	// sends an error. It may be called from many goroutines at once.
	Serve(c *Call, w *xdr.Writer) Outcome
}

// A table lists what the Server serves. It is immutable: Register, SetFallback and Protect replace
// it.
type table struct {
	versions    []*versionRow
	fallback    Fallback // nil if there is none
	protections map[Flavor]Protection
}

// versionRow is one version of a program. low and high are Program.Versions.
type versionRow struct {
	program         Program
	number, version uint32
	low, high       uint32
	procedures      []procedureRow
	index           uint8 // in table.versions, modulo 32: see marks
}

type procedureRow struct {
	*Procedure
	program uint32
	index   uint8 // of the versionRow
	counts  counts
}

// maxVersions is how many versions one program may have.
const maxVersions = 64

// change replaces the table by a copy that change has changed.
func (s *Server) change(change func(t *table)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := *s.table.Load()
	now.versions, now.protections = slices.Clone(now.versions), maps.Clone(now.protections)
	change(&now)
	s.table.Store(&now)
}

// SetFallback makes f serve the calls to unregistered programs from now on.
func (s *Server) SetFallback(f Fallback) { s.change(func(t *table) { t.fallback = f }) }

// Protect adds p for a flavor, or replaces the flavor's Protection.
func (s *Server) Protect(f Flavor, p Protection) { s.change(func(t *table) { t.protections[f] = p }) }

// Register serves p from now on. It panics if a version of the program is already registered, if
// p's highest version is below its lowest, or if p has more than maxVersions versions.
func (s *Server) Register(p Program) {
	number := p.Number()
	low, high := p.Versions()
	if high < low || high-low >= maxVersions {
		panic(fmt.Sprintf("rpc: program %d serves versions %d to %d", number, low, high))
	}
	s.change(func(t *table) {
		for i := range high - low + 1 {
			version := low + i
			b := p.Binding(version)
			if b == nil {
				continue
			}
			if slices.ContainsFunc(t.versions, func(v *versionRow) bool { return v.number == number && v.version == version }) {
				panic(fmt.Sprintf("rpc: version %d of program %d is registered already", version, number))
			}
			row := &versionRow{program: p, number: number, version: version, low: low, high: high, index: uint8(len(t.versions) % 32)}
			for i := range b.Procedures {
				row.procedures = append(row.procedures, procedureRow{Procedure: &b.Procedures[i], program: number, index: row.index})
			}
			t.versions = append(t.versions, row)
		}
	})
}
