package server

import (
	"errors"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// failing is a Records that fails on demand.
type failing struct{ err error }

func (f *failing) Begin() (uint32, []state.Record, error) { return 1, nil, nil }
func (f *failing) Put([]state.Record) error               { return f.err }
func (f *failing) Remove([]state.Record) error            { return f.err }

// The server logs once, with the cause, that records cannot be written, and once that they
// can be written again.
func TestRecordsThatCannotBeWrittenAreTold(t *testing.T) {
	core, log := observer.New(zap.InfoLevel)
	below := &failing{}
	r := &toldRecords{Records: below, log: zap.New(core)}
	for _, err := range []error{nil, errors.New("no disk"), errors.New("no disk"), nil, nil, errors.New("no disk")} {
		below.err = err
		if got := r.Put(nil); got != err {
			t.Errorf("Put: %v", got)
		}
		if got := r.Remove(nil); got != err {
			t.Errorf("Remove: %v", got)
		}
	}
	var said []string
	for _, e := range log.All() {
		said = append(said, e.Level.String())
		if e.Level == zap.ErrorLevel && e.ContextMap()["error"] != "no disk" {
			t.Errorf("it says %v", e.ContextMap())
		}
	}
	if len(said) != 3 || said[0] != "error" || said[1] != "info" || said[2] != "error" {
		t.Errorf("said: %v", said)
	}
}
