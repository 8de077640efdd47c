package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// functions returns the names of the functions in the _test.go files of a directory.
func functions(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				names[f.Name.Name] = true
			}
		}
	}
	return names
}

// rowNumber is the number of a row in docs/conformance*.md.
var rowNumber = regexp.MustCompile(`^((A|IW|L|P|V1|V2|XA)-|V2-N)[0-9]+`)

// Each mutant in the list is up to date: it breaks a numbered row, its text occurs once in its
// declaration, the changed file is valid Go, and its tests exist.
func TestEveryMutantApplies(t *testing.T) {
	tests := make(map[string]map[string]bool)
	for _, m := range all() {
		if !rowNumber.MatchString(m.rule) {
			t.Errorf("%v: the rule does not begin with the number of a row in docs/conformance*.md", m)
		}
		file, text, err := m.apply(root)
		if err != nil {
			t.Errorf("%v: %v", m, err)
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution); err != nil {
			t.Errorf("%v: the mutated file is no Go: %v", m, err)
		}
		if tests[m.testDir] == nil {
			tests[m.testDir] = functions(t, m.testDir)
		}
		names := strings.Fields(m.tests)
		if len(names) == 0 {
			t.Errorf("%v: names no test", m)
		}
		for _, name := range names {
			if !tests[m.testDir][name] {
				t.Errorf("%v: %s has no test %s", m, m.testDir, name)
			}
		}
	}
}

// No two mutants make the same change or have the same description.
func TestNoTwoMutantsAreAlike(t *testing.T) {
	change, words := make(map[[4]string]bool), make(map[string]bool)
	for _, m := range all() {
		if c := [4]string{m.dir, m.decl, m.old, m.new}; change[c] {
			t.Errorf("%v: another one makes the same change", m)
		} else {
			change[c] = true
		}
		if w := m.dir + m.decl + m.rule; words[w] {
			t.Errorf("%v: another one has the same description", m)
		} else {
			words[w] = true
		}
	}
}
