package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/client/bench"
)

func TestServersToMeasure(t *testing.T) {
	base := bench.Config{Target: client.Target{Port: 7}}
	got, err := benchServers(base, []string{"a:/x", "[fe80::1]:2050:/x/y", "192.0.2.1:20490:/"})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"a 7 /x", "fe80::1 2050 /x/y", "192.0.2.1 20490 /"} {
		if s := fmt.Sprintf("%s %d %s", got[i].Host, got[i].Port, got[i].Export); s != want {
			t.Errorf("server %d is %q, want %q", i, s, want)
		}
	}
	for _, wrong := range []string{"a", "a:x", ":/x", "a:0:/x", "a:b:/x"} {
		if _, err := benchServers(base, []string{"b:/x", wrong}); !errors.Is(err, client.ErrAddress) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

// A measurement that the user ends has an exit status of its own, also during the preparation. One that fails at that moment
// for another reason keeps its error, and so does the removal of its files.
func TestInterruptedMeasurement(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("a signal"))
	for _, ended := range []error{context.Cause(ctx), context.Canceled} {
		err := interrupted(ctx, errors.Join(fmt.Errorf("measuring: %w", ended), errors.New("removing: no space")), errPartly)
		if exitStatus(err) != exitUnfinished || !strings.Contains(err.Error(), "no space") || strings.Contains(err.Error(), "measuring:") {
			t.Errorf("%v: status %d", err, exitStatus(err))
		}
	}
	if err := interrupted(ctx, errors.New("no space"), errPartly); exitStatus(err) != 1 {
		t.Errorf("%v: status %d", err, exitStatus(err))
	}
	if err := interrupted(t.Context(), nil, errPartly); err != nil {
		t.Error(err)
	}
}

// A picture replaces the file of its name when it is whole, and a measurement without a result leaves that file alone.
func TestPictureReplacesAFile(t *testing.T) {
	dir := t.TempDir()
	output := benchOutput{svg: filepath.Join(dir, "picture.svg")}
	content := func() string {
		names, err := os.ReadDir(dir)
		if err != nil || len(names) != 1 {
			t.Errorf("%v, %v", names, err)
		}
		b, err := os.ReadFile(output.svg)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if err := os.WriteFile(output.svg, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, whole := range []bool{false, true} {
		p, err := output.create()
		if err != nil {
			t.Fatal(err)
		}
		if before, err := os.ReadFile(output.svg); err != nil || string(before) != "before" {
			t.Errorf("during the measurement: %q, %v", before, err)
		}
		want := "before"
		if whole {
			want = "drawn"
			err = p.write(drawn{})
		} else {
			err = p.discard()
		}
		if got := content(); err != nil || got != want {
			t.Errorf("%q, want %q: %v", got, want, err)
		}
	}
	// A directory has taken the name meanwhile.
	p, err := output.create()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(output.svg), os.Mkdir(output.svg, 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := p.write(drawn{}); err == nil {
		t.Error("a picture has replaced a directory")
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("a picture that could not get its name is left behind: %v, %v", names, err)
	}
	output.svg = os.DevNull
	p, err = output.create()
	if err == nil {
		err = p.write(drawn{})
	}
	if is, statErr := os.Stat(os.DevNull); err != nil || statErr != nil || is.Mode().IsRegular() {
		t.Errorf("%v, %v", err, statErr)
	}
}

// drawn is a measured with a picture.
type drawn struct{}

func (drawn) Print(io.Writer) {}
func (drawn) WriteSVG(w io.Writer) error {
	_, err := io.WriteString(w, "drawn")
	return err
}
