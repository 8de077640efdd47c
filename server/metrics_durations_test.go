package server

import (
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// A call's duration is counted without an allocation, in the histogram of its procedure. Procedures of one name in several
// versions of a program are one, and what no program here has is not counted.
func TestDurationsOfCalls(t *testing.T) {
	d := newDurations()
	var called []rpc.ProcedureStats
	count := func(program, version, procedure uint32, name string) func() {
		called = append(called, rpc.ProcedureStats{Program: program, Version: version, Procedure: procedure, Name: name})
		e := &rpc.Event{Conn: &rpc.Conn{ID: uint64(len(called))}, Program: program, Version: version, Procedure: procedure, Name: name, Nanoseconds: int64(time.Millisecond)}
		return func() { d.observe(e) }
	}
	for _, observe := range []func(){
		count(100003, 3, 0, "NULL"), count(100003, 4, 0, "NULL"), count(100003, 3, 1, "GETATTR"),
		count(100003, 9, 1, "GETATTR"), count(1, 1, 1, "OTHER"), count(100003, 3, mostProcedures, "NONE"),
	} {
		if n := testing.AllocsPerRun(9, observe); n != 0 { // it runs once more
			t.Errorf("%v allocations", n)
		}
	}
	got := make(map[string]uint64)
	for _, p := range d.read(called) {
		got[p.program+" "+p.procedure] = p.Count()
	}
	if len(got) != 2 || got["nfs NULL"] != 20 || got["nfs GETATTR"] != 10 {
		t.Errorf("%v", got)
	}
}
