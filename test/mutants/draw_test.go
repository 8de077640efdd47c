package main

import (
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A draw gives the same mutants for the same seed, only of code that compiles, and at most as many as there are
// changes. A failure of a drawn mutant's tests counts if the same test passes without the mutant.
func TestDraw(t *testing.T) {
	r := newRunner(module(t), 20*time.Second)
	all, err := r.draw(t.Context(), 5, 1)
	again, errAgain := r.draw(t.Context(), 5, 1)
	if err != nil || errAgain != nil || !reflect.DeepEqual(all, again) {
		t.Errorf("two draws differ: %v, %v; %v, %v", all, err, again, errAgain)
	}
	if len(all) != 1 || all[0].String() != "1 p/p.go:4: one more than `2`" {
		t.Fatalf("drawn: %v", all)
	}
	if o, said := r.runDrawn(t.Context(), all[0]); o != killed || !strings.Contains(said, "twice 3 is 9") {
		t.Errorf("%v: %v, %q", all[0], o, said)
	}
	for tests, want := range map[string]outcome{"TestWait": survived, "TestNothing": survived, "TestFails": broken} {
		d := all[0]
		d.tests = tests
		if o, said := r.runDrawn(t.Context(), d); o != want {
			t.Errorf("with %s: %v, %q, want %v", tests, o, said, want)
		}
	}
	if all, err := r.each(t.Context(), regexp.MustCompile("p.go:4$")); err != nil || len(all) != 1 {
		t.Errorf("of one line: %v, %v", all, err)
	}
}
