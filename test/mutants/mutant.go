package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A mutant is a change of the code that breaks a rule on purpose.
type mutant struct {
	// rule begins with the number of its row in docs/conformance*.md.
	rule string
	// dir is the package that the mutant changes. decl is the name of the function, method
	// (Type.Method), type, variable or constant in it that the mutant changes. old occurs once in
	// decl; the mutant replaces it by new. Edits elsewhere in the file do not affect the mutant.
	dir, decl, old, new string
	// testDir is the package with the tests. tests are their names, separated by spaces; at least
	// one of them must fail.
	testDir, tests string
}

func (m mutant) String() string {
	return fmt.Sprintf("%s %s: %s [%s in %s]", m.dir, m.decl, m.rule, m.tests, m.testDir)
}

// all returns all mutants.
func all() []mutant {
	return slices.Concat(iwarpMutants, rdmaMutants, rdma2Mutants, rpcMutants, xattrMutants)
}

// apply returns the path, relative to the directory root, of the file that the mutant changes, and
// the changed text.
func (m mutant) apply(root string) (file string, text []byte, err error) {
	if m.old == "" || m.old == m.new {
		return "", nil, fmt.Errorf("%v: the mutant changes nothing", m)
	}
	file, text, from, to, err := find(root, m.dir, m.decl)
	if err != nil {
		return "", nil, err
	}
	body := string(text[from:to])
	if n := strings.Count(body, m.old); n != 1 {
		return "", nil, fmt.Errorf("%s in %s has %d times %q, not once", m.decl, file, n, m.old)
	}
	return file, slices.Concat(text[:from], []byte(strings.Replace(body, m.old, m.new, 1)), text[to:]), nil
}

// find returns the file that declares a name in the package in dir, the file's text, and the range
// of the declaration: its first byte, `from`, and the byte after its last, `to`.
func find(root, dir, name string) (file string, text []byte, from, to int, err error) {
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		return "", nil, 0, 0, err
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		if text, err = os.ReadFile(path); err != nil {
			return "", nil, 0, 0, err
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, path, text, parser.SkipObjectResolution)
		if err != nil {
			return "", nil, 0, 0, err
		}
		for _, d := range parsed.Decls {
			if n := declaration(d, name); n != nil {
				return filepath.Join(dir, filepath.Base(path)), text, fset.Position(n.Pos()).Offset, fset.Position(n.End()).Offset, nil
			}
		}
	}
	return "", nil, 0, 0, fmt.Errorf("package %s declares no %s", dir, name)
}

// declaration returns the node in d that declares the given name, or nil.
func declaration(d ast.Decl, name string) ast.Node {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if functionName(d) == name {
			return d
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				if slices.ContainsFunc(s.Names, func(n *ast.Ident) bool { return n.Name == name }) {
					return s
				}
			case *ast.TypeSpec:
				if s.Name.Name == name {
					return s
				}
			}
		}
	}
	return nil
}

// functionName returns the name of a function, or Type.Method for a method.
func functionName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	t := d.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if generic, ok := t.(*ast.IndexExpr); ok {
		t = generic.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name + "." + d.Name.Name
	}
	return d.Name.Name
}

// pattern returns the argument of -run with which go test runs the mutant's tests.
func (m mutant) pattern() string {
	return "^(" + strings.Join(strings.Fields(m.tests), "|") + ")$"
}
