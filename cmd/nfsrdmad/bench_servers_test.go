package main

import (
	"context"
	"errors"
	"fmt"
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

// A measurement that the user ends has an exit status of its own. One that fails at that moment for another reason
// keeps its error.
func TestInterruptedMeasurement(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("a signal"))
	if err := interrupted(ctx, fmt.Errorf("measuring: %w", context.Cause(ctx))); exitStatus(err) != exitUnfinished {
		t.Errorf("%v: status %d", err, exitStatus(err))
	}
	if err := interrupted(ctx, errors.New("no space")); exitStatus(err) != 1 {
		t.Errorf("%v: status %d", err, exitStatus(err))
	}
	if err := interrupted(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// Errors are shown without the names of packages.
func TestErrorsInPlainWords(t *testing.T) {
	for text, want := range map[string]string{
		`client: not an address: "a" is not HOST:/export`:            `not an address: "a" is not HOST:/export`,
		"bench: connecting to a over tcp: client: lookup a: no host": "connecting to a over tcp: lookup a: no host",
		"cannot listen on tcp: address in use":                       "cannot listen on tcp: address in use",
		"/etc/nfsrdmad/nfsrdmad.toml:3: tcp: 5 is no list":           "/etc/nfsrdmad/nfsrdmad.toml:3: tcp: 5 is no list",
	} {
		if got := plain(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
