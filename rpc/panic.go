package rpc

import (
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// A Panic is a fault of a Program: it panicked where it was to answer. The call
// got SYSTEM_ERR, and the server goes on.
type Panic struct {
	// Program and Procedure are what was called; zero where that was not known
	// yet.
	Program   uint32
	Procedure string
	// Value is what recover returned, and Stack the goroutine's as
	// debug.Stack has it, the place of the panic included.
	Value any
	Stack []byte
}

// maxPanics bounds how many places of panics are told apart. Later ones are
// counted and not reported.
const maxPanics = 64

// place is where a panic began, and by which calls it came there: program
// counters, the innermost first.
type place [8]uintptr

// panics are the faults of programs.
type panics struct {
	count    atomic.Uint64
	mu       sync.Mutex
	reported map[place]struct{}
}

// first says whether nothing was reported of a panic at p before.
func (f *panics) first(p place) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, again := f.reported[p]; again || len(f.reported) == maxPanics {
		return false
	}
	if f.reported == nil {
		f.reported = make(map[place]struct{})
	}
	f.reported[p] = struct{}{}
	return true
}

// panicked counts what a program's function panicked with, and reports it where
// it is the first of its place. It is called by the deferred function that
// recovered.
func (s *Server) panicked(number *numberRow, row *procedureRow, value any) {
	s.panics.count.Add(1)
	if s.cfg.Panicked == nil || !s.panics.first(placeOfPanic()) {
		return
	}
	f := Panic{Value: value, Stack: debug.Stack()}
	if row != nil {
		f.Program, f.Procedure = number.number, row.Name
	}
	s.cfg.Panicked(&f)
}

// placeOfPanic reads the stack beneath the panic that is being recovered, down
// to where this package called the program: what called this package differs
// by transport, and is not the program's.
func placeOfPanic() (p place) {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	panicking := false
	for at := 0; at < len(p); {
		f, more := frames.Next()
		switch {
		case f.Function == "runtime.gopanic":
			panicking = true
		case panicking && strings.Contains(f.Function, "/rpc.(*Server)."):
			return p
		case panicking && (at > 0 || !strings.HasPrefix(f.Function, "runtime.")):
			p[at] = f.PC
			at++
		}
		if !more {
			return p
		}
	}
	return p
}

// perform is the program's Serve, or that of the flavor whose own business the call
// is. A panic of it ends the call with SYSTEM_ERR, unless the program detached the
// call before: then Complete or Resume is the program's to call, from whichever
// goroutine it has told so, and may have been called.
func (s *Server) perform(c *Call, w *xdr.Writer) (out Outcome) {
	number, row, detached := c.state.number, c.state.row, c.detached.Load()
	defer func() {
		if v := recover(); v != nil {
			s.panicked(number, row, v)
			if out = SystemErr; c.detached.Load() != detached {
				out = Outcome{Pending: true}
			}
		}
	}()
	if h := c.state.handler; h != nil {
		return h.Serve(c, w)
	}
	return c.state.program.Serve(c, w)
}

// encode is the function that a program handed to Complete.
func (s *Server) encode(c *Call, w *xdr.Writer, results func(w *xdr.Writer) Outcome) (out Outcome) {
	defer s.caught(c, &out)
	return results(w)
}

// caught, deferred, makes a panic the outcome SYSTEM_ERR.
func (s *Server) caught(c *Call, out *Outcome) {
	if v := recover(); v != nil {
		s.panicked(c.state.number, c.state.row, v)
		*out = SystemErr
	}
}

// failed, deferred, makes a panic the answer false.
func (s *Server) failed(c *Call, ok *bool) {
	if v := recover(); v != nil {
		s.panicked(c.state.number, c.state.row, v)
		*ok = false
	}
}
