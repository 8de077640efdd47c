package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// functions are the names of the functions in the _test.go files of a directory.
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

// The list does not rot: the text of each mutant occurs once in its file, what it
// makes of the file is Go, and the tests that are to notice are there.
func TestEveryMutantApplies(t *testing.T) {
	tests := make(map[string]map[string]bool)
	for _, m := range all() {
		text, err := m.apply(root)
		if err != nil {
			t.Errorf("%v: %v", m, err)
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), m.file, text, parser.SkipObjectResolution); err != nil {
			t.Errorf("%v: what it makes is no Go: %v", m, err)
		}
		if strings.HasSuffix(m.file, "_test.go") || m.rule == "" {
			t.Errorf("%v: a mutant breaks a rule, and says which, in the product", m)
		}
		if tests[m.dir] == nil {
			tests[m.dir] = functions(t, m.dir)
		}
		names := strings.Fields(m.tests)
		if len(names) == 0 {
			t.Errorf("%v: names no test", m)
		}
		for _, name := range names {
			if !tests[m.dir][name] {
				t.Errorf("%v: %s has no test %s", m, m.dir, name)
			}
		}
	}
}

// Two mutants that do the same, or that are described in the same words, are one.
func TestNoTwoMutantsAreAlike(t *testing.T) {
	change, words := make(map[[3]string]bool), make(map[string]bool)
	for _, m := range all() {
		if c := [3]string{m.file, m.old, m.new}; change[c] {
			t.Errorf("%v: another one does the same", m)
		} else {
			change[c] = true
		}
		if w := m.file + m.rule; words[w] {
			t.Errorf("%v: another one is called so", m)
		} else {
			words[w] = true
		}
	}
}
