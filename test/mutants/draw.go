package main

import (
	"cmp"
	"context"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A drawn is a mutant that the flag -draw has made: it changes a line of the code at random.
type drawn struct {
	mutant
	number int // from 1
	file   string
	line   int
	others []suite // what runs after the tests of the mutant's own package, while these pass
}

func (d drawn) String() string { return fmt.Sprintf("%d %s:%d: %s", d.number, d.file, d.line, d.rule) }

// A change is one of the changes that are possible on a line.
type change struct {
	decl     string // as in mutant
	from, to int    // the range of the declaration in the file's text
	at, end  int    // the range that is replaced
	new      string // by what
	what     string // the change in words
}

// A changeable is a line with its possible changes.
type changeable struct {
	dir, file string
	line      int
	text      []byte // of the file
	changes   []change
}

// draw returns n mutants. The same seed and the same code give the same mutants. Each line of the
// product that can be changed has the same chance, and each possible change of the line. Left out
// are generated code, the packages that only tests use, and the declarations that the lists of
// mutants change. If a change does not compile, another line is drawn.
func (r *runner) draw(ctx context.Context, n int, seed uint64) ([]drawn, error) {
	listed := make(map[[2]string]bool)
	for _, m := range all() {
		listed[[2]string{m.dir, m.decl}] = true
	}
	lines, err := changeableLines(r.root, listed)
	if err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(seed, 0))
	var all []drawn
	for _, i := range random.Perm(len(lines)) {
		if len(all) == n || ctx.Err() != nil {
			return all, ctx.Err()
		}
		l := lines[i]
		c := l.changes[random.IntN(len(l.changes))]
		if m := l.mutant(c); r.compiles(ctx, m) {
			all = append(all, drawn{m, len(all) + 1, l.file, l.line, suitesFor(l.dir)})
		}
	}
	return all, ctx.Err()
}

// each returns a mutant for each change of the lines that match a regular expression, as in
// "rpc/admit.go:2[01][0-9]".
func (r *runner) each(ctx context.Context, where *regexp.Regexp) (all []drawn, err error) {
	lines, err := changeableLines(r.root, nil)
	if err != nil {
		return nil, err
	}
	for _, l := range lines {
		if !where.MatchString(fmt.Sprintf("%s:%d", l.file, l.line)) {
			continue
		}
		for _, c := range l.changes {
			if m := l.mutant(c); r.compiles(ctx, m) {
				all = append(all, drawn{m, len(all) + 1, l.file, l.line, nil})
			}
		}
	}
	return all, ctx.Err()
}

// mutant returns the mutant that makes one of the changes of l. All tests of l's package are its
// tests.
func (l *changeable) mutant(c change) mutant {
	old := string(l.text[c.from:c.to])
	return mutant{c.what, l.dir, c.decl, old, old[:c.at-c.from] + c.new + old[c.end-c.from:], l.dir, ".*"}
}

// changeableLines returns the lines of the product that can be changed, by file and line, without
// those in declarations that are listed by package and name.
func changeableLines(root string, listed map[[2]string]bool) ([]changeable, error) {
	var lines []changeable
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		file, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if e.IsDir() {
			if onlyForTests(file) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		if match, err := build.Default.MatchFile(filepath.Dir(path), e.Name()); err != nil || !match {
			return err
		}
		found, err := linesOf(root, file, listed)
		lines = append(lines, found...)
		return err
	})
	return lines, err
}

// onlyForTests reports whether the daemon and the tools contain no package in or below a directory.
func onlyForTests(dir string) bool {
	name := filepath.Base(dir)
	return dir == "test" || name == "testdata" || name != "." && name[0] == '.' || name == "golden" || name == "xdrgen" ||
		name == "rawpeer" || name == "fakedevice" || strings.HasSuffix(name, "test")
}

// linesOf returns the lines of one file that can be changed, as changeableLines does.
func linesOf(root, file string, listed map[[2]string]bool) ([]changeable, error) {
	dir := filepath.Dir(file)
	fset := token.NewFileSet()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return nil, err
	}
	parsed, err := parser.ParseFile(fset, file, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(parsed) {
		return nil, err
	}
	byLine := make(map[int][]change)
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil || f.Name.Name == "init" || f.Name.Name == "_" || listed[[2]string{dir, functionName(f)}] {
			continue
		}
		s := &search{fset: fset, text: text, file: file, decl: f, found: byLine}
		ast.Inspect(f.Body, s.visit)
	}
	lines := make([]changeable, 0, len(byLine))
	for n, changes := range byLine {
		lines = append(lines, changeable{dir, file, n, text, changes})
	}
	slices.SortFunc(lines, func(a, b changeable) int { return cmp.Compare(a.line, b.line) })
	return lines, nil
}

// A search collects the possible changes in one function.
type search struct {
	fset  *token.FileSet
	text  []byte
	file  string
	decl  *ast.FuncDecl
	found map[int][]change // by line
}

func (s *search) offset(p token.Pos) int { return s.fset.Position(p).Offset }

// add adds the replacement of the code from at to end.
func (s *search) add(at, end token.Pos, new, what string) {
	old := strings.Join(strings.Fields(string(s.text[s.offset(at):s.offset(end)])), " ")
	line := s.fset.Position(at).Line
	s.found[line] = append(s.found[line], change{
		decl: functionName(s.decl), from: s.offset(s.decl.Pos()), to: s.offset(s.decl.End()),
		at: s.offset(at), end: s.offset(end), new: new, what: fmt.Sprintf("%s `%s`", what, old),
	})
}

// edges has the comparisons that differ from others only where both sides are equal.
var edges = map[token.Token]token.Token{token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR}

// visit adds the changes that are possible at a node: it negates a condition, moves the edge of a
// comparison, adds one to a constant, or drops a statement.
func (s *search) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.IfStmt:
		s.negate(n.Cond)
	case *ast.ForStmt:
		if n.Cond != nil {
			s.negate(n.Cond)
		}
	case *ast.BinaryExpr:
		switch {
		case n.Op == token.LAND || n.Op == token.LOR:
			s.negate(n.X)
			s.negate(n.Y)
		case edges[n.Op] != token.ILLEGAL:
			op := edges[n.Op].String()
			s.add(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), op, "now "+op+", not")
		}
	case *ast.BasicLit:
		if n.Kind == token.INT {
			s.add(n.Pos(), n.End(), "("+n.Value+" + 1)", "one more than")
		}
	case *ast.BlockStmt:
		s.drop(n.List)
	case *ast.CaseClause:
		s.drop(n.Body)
	case *ast.CommClause:
		s.drop(n.Body)
	}
	return true
}

// negate adds the negation of a condition.
func (s *search) negate(c ast.Expr) {
	s.add(c.Pos(), c.End(), "!("+string(s.text[s.offset(c.Pos()):s.offset(c.End())])+")", "the contrary of")
}

// drop adds the removal of each statement that stands alone.
func (s *search) drop(list []ast.Stmt) {
	for _, st := range list {
		switch st := st.(type) {
		case *ast.AssignStmt:
			if st.Tok == token.DEFINE {
				continue
			}
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.SendStmt, *ast.DeferStmt, *ast.GoStmt, *ast.BranchStmt:
		case *ast.ReturnStmt:
			if len(st.Results) > 0 {
				continue
			}
		default:
			continue
		}
		s.add(st.Pos(), st.End(), "", "without")
	}
}
