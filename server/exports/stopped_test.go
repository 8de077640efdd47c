package exports

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/internal/durable"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/logline"
)

// Whichever way the writing of the record fails, an order holds, and Unrecorded says so. The next attempt, which Retry
// makes, writes what holds then, also if the failure left the file as it should have been before. The log says once that it
// fails, and once that it works again.
func TestOrdersThatCannotBeRecorded(t *testing.T) {
	fault := &os.PathError{Op: "write", Path: "f", Err: unix.ENOSPC}
	writes := map[string]func(file string, content []byte) error{
		"nothing was written":  func(string, []byte) error { return fault },
		"the name is not sure": func(file string, content []byte) error { return errors.Join(durable.Write(file, content), fault) },
	}
	for name, fails := range writes {
		s := newPendingSite(t)
		core, log := observer.New(zap.InfoLevel)
		s.offer.log = zap.New(core)
		is := func(when string, recorded bool, want ...string) {
			t.Helper()
			if err := s.offer.Unrecorded(); (err == nil) != recorded || err != nil && !errors.Is(err, unix.ENOSPC) {
				t.Errorf("%s, %s: Unrecorded returns %v", name, when, err)
			}
			if got, err := ReadStopped(s.filesystems.state); recorded && (err != nil || !slices.Equal(got, want)) {
				t.Errorf("%s, %s: recorded is %q, %v", name, when, got, err)
			}
		}
		s.stops()
		is("after a stop", true, "/e")
		s.offer.write = fails
		for range 2 {
			if err := s.offer.Start(t.Context(), "/e"); err != nil || len(s.set.Table.All()) != 1 {
				t.Errorf("%s: the export is not served: %v", name, err)
			}
			is("after a start", false)
		}
		s.stops() // as is recorded, if nothing was written
		s.stops()
		is("after one more stop", false)
		if f := s.offer.Faults(); len(f) != 1 || !strings.Contains(f[0].Err.Error(), "no space left") || !f[0].Stopped {
			t.Errorf("%s: the faults are %v", name, f)
		}
		s.offer.write = durable.Write
		s.offer.Retry(t.Context())
		is("after a new attempt", true, "/e")
		if f := s.offer.Faults(); len(f) != 1 || f[0].Err != errStopped {
			t.Errorf("%s: the faults are %v", name, f)
		}
		if err := s.offer.Start(t.Context(), "/e"); err != nil {
			t.Error(err)
		}
		is("at the end", true)
		var said []string
		for _, e := range log.All() {
			if e.Message == logline.StopsUnrecorded || e.Message == logline.StopsRecorded {
				said = append(said, e.Message)
			}
		}
		if !slices.Equal(said, []string{logline.StopsUnrecorded, logline.StopsRecorded}) {
			t.Errorf("%s: the log says %q", name, said)
		}
	}
}

// An Offer that recalls the stopped exports opens none of them, writes nothing before Begin, and forgets those that the
// configuration does not have.
func TestOfferRecallsStops(t *testing.T) {
	s := newPendingSite(t)
	state := s.filesystems.state
	file := filepath.Join(state, stoppedFile)
	const content = `{"version": 1, "exports": ["/e", "/gone"]}`
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	offer := NewOffer(zap.NewNop(), s.set, s.filesystems, func([]Fault) {})
	if err := offer.Recall(); err != nil {
		t.Fatal(err)
	}
	missing := config.Export{Path: config.Dir{Path: filepath.Join(state, "missing")}, Name: "/e"}
	if _, err := offer.Serve(t.Context(), []config.Export{missing}); err != nil {
		t.Fatal(err)
	}
	if f := offer.Faults(); len(f) != 1 || !f[0].Stopped {
		t.Errorf("the faults are %v", f)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != content {
		t.Errorf("before Begin the file has %q, %v", b, err)
	}
	offer.Begin()
	if got, err := ReadStopped(state); err != nil || !slices.Equal(got, []string{"/e"}) {
		t.Errorf("recorded is %q, %v", got, err)
	}
	for _, all := range [][]config.Export{{s.export}, nil, {s.export}} {
		if _, err := offer.Serve(t.Context(), all); err != nil {
			t.Fatal(err)
		}
	}
	if f := offer.Faults(); len(f) > 0 {
		t.Errorf("an export that was removed and came back: %v", f)
	}
	if got, err := ReadStopped(state); err != nil || len(got) > 0 {
		t.Errorf("recorded is %q, %v", got, err)
	}
}
