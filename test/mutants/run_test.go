package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// module creates a work tree with one package.
func module(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.org/m\n\ngo 1.26\n",
		"p/p.go": `package p

// Double doubles.
func Double(n int) int { return 2 * n }

// Wait waits for a value.
func Wait(c chan int) int { return <-c }
`,
		"p/p_test.go": `package p

import "testing"

func TestDouble(t *testing.T) {
	if n := Double(3); n != 6 {
		t.Errorf("twice 3 is %d", n)
	}
}

func TestWait(t *testing.T) {
	c := make(chan int, 1)
	c <- 1
	Wait(c)
}

func TestFails(t *testing.T) { t.Fatal("as ever") }
`,
		"c/c.go": `package main

import (
	"fmt"

	"example.org/m/p"
)

func main() { fmt.Print(p.Double(3)) }
`,
		"q/q_test.go": `package q

import (
	"os/exec"
	"testing"
)

func TestProgram(t *testing.T) {
	if out, err := exec.Command("go", "run", "../c").CombinedOutput(); err != nil || string(out) != "6" {
		t.Errorf("the program prints %s, %v", out, err)
	}
}
`,
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The runner distinguishes all outcomes of mutants, and leaves the work tree unchanged.
func TestOutcomes(t *testing.T) {
	r := newRunner(module(t), 20*time.Second)
	before, err := os.ReadFile(filepath.Join(r.root, "p/p.go"))
	if err != nil {
		t.Fatal(err)
	}
	var trials []trial
	for _, c := range []struct {
		decl, old, new, tests string
		want                  outcome
		says                  string
	}{
		{"Double", "2 * n", "3 * n", "TestDouble", killed, "twice 3 is 9"},
		{"Double", "2 * n", "6", "TestDouble", survived, ""},
		{"Double", "2 * n", "[]int{}[n]", "TestDouble", panicked, "index out of range"},
		{"Wait", "return <-c", "<-c; return <-c", "TestWait", timedOut, "test timed out"},
		{"Double", "2 * n", "2 * k", "TestDouble", broken, "undefined: k"},
		{"Double", "4 * n", "5 * n", "TestDouble", broken, "0 times"},
		{"Triple", "2 * n", "3 * n", "TestDouble", broken, "declares no Triple"},
		{"Double", "2 * n", "2 * n", "TestDouble", broken, "changes nothing"},
		{"Double", "2 * n", "3 * n", "TestDoubled", broken, "has no test TestDoubled"},
		{"Double", "2 * n", "3 * n", "TestFails", broken, "without the mutant the tests fail"},
	} {
		m := mutant{"a rule", "p", c.decl, c.old, c.new, "p", c.tests}
		trials = append(trials, trial{m, func(ctx context.Context) (outcome, string) { return r.run(ctx, m) }})
		if got, said := r.run(t.Context(), m); got != c.want || !strings.Contains(said, c.says) {
			t.Errorf("%s instead of %s: %v, %q, want %v, %q", c.new, c.old, got, said, c.want, c.says)
		}
	}
	// A mutant also applies to a program that a test builds and starts.
	program := mutant{"a rule", "p", "Double", "2 * n", "3 * n", "q", "TestProgram"}
	if got, said := r.run(t.Context(), program); got != killed || !strings.Contains(said, "the program prints 9") {
		t.Errorf("a test of a program: %v, %q", got, said)
	}
	if after, err := os.ReadFile(filepath.Join(r.root, "p/p.go")); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file was changed: %v\n%s", err, after)
	}

	var out bytes.Buffer
	if report(t.Context(), &out, trials[:2], 2) {
		t.Error("a survivor is no failure")
	}
	if s := out.String(); !strings.Contains(s, "2 of 2 mutants: 1 killed, 0 panicked, 0 timed out, 1 survived, 0 broken") ||
		!strings.Contains(s, "survived  p Double: a rule") {
		t.Errorf("the report is\n%s", s)
	}
	if !report(t.Context(), &out, trials[:1], 1) {
		t.Error("a killed mutant is a failure")
	}
}
