package rpc

import (
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
)

// A Panic reports that a Program panicked while it served a call. The caller gets SYSTEM_ERR,
// unless the program had already detached the call. The server continues.
type Panic struct {
	// Program and Procedure are the number of the call's program and the name of its procedure.
	// They are zero if the call has no registered procedure.
	Program   uint32
	Procedure string
	// Value is the value that recover returned. Stack is the goroutine's stack as debug.Stack
	// returns it, including the function that panicked.
	Value any
	Stack []byte
}

// maxPanics is the largest number of code places whose panics are reported. Panics at further
// places are only counted.
const maxPanics = 64

// A place is the program counter of a panic and those of its callers, the innermost first.
type place [8]uintptr

// panics counts the panics of programs, and stores the places of reported panics.
type panics struct {
	count    atomic.Uint64
	mu       sync.Mutex
	reported map[place]struct{}
}

// first reports whether this is the first panic at p. It also returns false if maxPanics places are
// in reported.
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

// panicked counts a panic of a program, and reports it if it is the first at its place. The
// deferred function that recovered calls it.
func (s *Server) panicked(row *procedureRow, value any) {
	s.panics.count.Add(1)
	if s.cfg.Panicked == nil || !s.panics.first(placeOfPanic()) {
		return
	}
	f := Panic{Value: value, Stack: debug.Stack()}
	if row != nil {
		f.Program, f.Procedure = row.program, row.Name
	}
	s.cfg.Panicked(&f)
}

// placeOfPanic returns the place of the panic that is being recovered. It reads the stack up to the
// function of this package that called the program. It leaves out the callers of that function,
// because they differ by transport.
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
