package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// An outcome is the result of a mutant.
type outcome int

// The outcomes, which the package's comment explains.
const (
	killed outcome = iota
	panicked
	timedOut
	survived
	broken
)

func (o outcome) String() string {
	return [...]string{"killed", "panicked", "timed out", "survived", "broken"}[o]
}

// dead reports whether the tests noticed the mutant: a test failed, panicked, or caused a race
// report.
func (o outcome) dead() bool { return o == killed || o == panicked }

// A runner runs mutants against the tests of a work tree.
type runner struct {
	root  string // root directory of the work tree
	limit time.Duration

	mu    sync.Mutex
	whole map[string]*sane // results of tests without a mutant, by package and names of the tests
}

// A sane has the result of running tests without a mutant: err is nil if they passed. The tests run
// only once for all mutants that name the same tests.
type sane struct {
	once sync.Once
	err  error
}

func newRunner(root string, limit time.Duration) *runner {
	return &runner{root: root, limit: limit, whole: make(map[string]*sane)}
}

// run tests one mutant: it runs the mutant's tests without the mutant and then with it. It returns
// the outcome and a message.
func (r *runner) run(ctx context.Context, m mutant) (outcome, string) {
	if err := r.sane(ctx, m); err != nil {
		return broken, err.Error()
	}
	out, err := r.changed(m, func(overlay string) ([]byte, error) { return r.test(ctx, m, overlay) })
	return judge(out, err)
}

// changed calls f with the path of the list that makes the go command use the mutant's file.
func (r *runner) changed(m mutant, f func(overlay string) ([]byte, error)) ([]byte, error) {
	dir, err := os.MkdirTemp("", "mutant-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	overlay, err := r.overlay(dir, m)
	if err != nil {
		return nil, err
	}
	return f(overlay)
}

// overlay writes the changed file, and the list that makes go test use it instead of the real
// one. It returns the path of the list.
func (r *runner) overlay(dir string, m mutant) (string, error) {
	file, text, err := m.apply(r.root)
	if err != nil {
		return "", err
	}
	root, err := filepath.Abs(r.root)
	if err != nil {
		return "", err
	}
	changed, list := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, file): changed}})
	if err != nil {
		return "", err
	}
	return list, errors.Join(os.WriteFile(changed, text, 0o600), os.WriteFile(list, replace, 0o600))
}

// sane checks that the mutant's tests exist and pass without the mutant.
func (r *runner) sane(ctx context.Context, m mutant) error {
	r.mu.Lock()
	key := m.testDir + " " + m.tests
	s := r.whole[key]
	if s == nil {
		s = new(sane)
		r.whole[key] = s
	}
	r.mu.Unlock()
	s.once.Do(func() {
		out, err := r.test(ctx, m, "")
		switch {
		case err != nil:
			s.err = fmt.Errorf("without the mutant the tests fail: %w\n%s", err, out)
		case bytes.Contains(out, []byte(noTests)):
			s.err = fmt.Errorf("%s has no test %s", m.testDir, m.tests)
		}
	})
	return s.err
}

// test runs the mutant's tests and returns their output. The parameter overlay is the path of the
// list that the method overlay has written, or "" to run the tests without the mutant.
func (r *runner) test(ctx context.Context, m mutant, overlay string) ([]byte, error) {
	c := exec.CommandContext(ctx, "go", "test", "-count=1", "-failfast", "-vet=off", "-timeout", r.limit.String(), "-run", m.pattern(), "./"+m.testDir)
	// Without this variable, the library rapid would store failed cases in the work tree and run
	// them first the next time.
	c.Env = append(os.Environ(), "RAPID_NOFAILFILE=true")
	if overlay != "" {
		// The overlay is an environment variable, so that it also applies to programs that a test
		// builds and starts.
		c.Env = append(c.Env, "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay))
	}
	c.Dir = r.root
	c.WaitDelay = 10 * time.Second
	return c.CombinedOutput()
}

// noTests is what go test prints if no test has a name that was asked for.
const noTests = "no tests to run"

// judge returns the outcome that go test's output shows, and a message, for example the first
// message of a failed test.
func judge(out []byte, err error) (outcome, string) {
	said := string(out)
	var exit *exec.ExitError
	switch {
	case err == nil && strings.Contains(said, noTests):
		return broken, noTests
	case err == nil:
		return survived, ""
	case !errors.As(err, &exit):
		return broken, err.Error()
	case strings.Contains(said, "panic: test timed out after"):
		return timedOut, firstLine(said, "panic: test timed out after")
	case strings.Contains(said, "[build failed]") || strings.Contains(said, "[setup failed]"):
		return broken, said
	case strings.Contains(said, "panic: ") || strings.Contains(said, "fatal error: ") || strings.Contains(said, "WARNING: DATA RACE"):
		return panicked, firstLine(said, "panic: ", "fatal error: ", "WARNING: DATA RACE")
	case strings.Contains(said, "--- FAIL"):
		return killed, firstWords(said)
	}
	return broken, said
}

// firstLine returns the first line that contains one of the words.
func firstLine(text string, words ...string) string {
	for line := range strings.Lines(text) {
		for _, w := range words {
			if strings.Contains(line, w) {
				return strings.TrimSpace(line)
			}
		}
	}
	return ""
}

// firstWords returns the first message of a failed test: the first line that begins like
// "file.go:12:". If there is none, it returns the line that names the failed test.
func firstWords(text string) string {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if i := strings.Index(line, ".go:"); i > 0 && !strings.ContainsAny(line[:i], " \t") {
			return line
		}
	}
	return firstLine(text, "--- FAIL")
}
