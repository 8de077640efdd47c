package conformance

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// A name identifies a function, variable or method of a package, by the package's directory and
// an identifier. For a method, the identifier is a dot and the method's name, because the checker
// does not know the method's type.
type name struct{ dir, ident string }

// A declaration is a function, a method or a variable of a package.
type declaration struct {
	where   string
	inTest  bool // true if it is in a _test.go file
	isFunc  bool
	numbers []number // in its doc comment, its comments and its strings
	uses    []name   // names that it refers to
	fails   bool     // true if its own code calls Error, Fatal or the like
	skipped bool     // true if it skips unconditionally
}

// A code is what the checker knows about the Go files of a repository.
type code struct {
	module       string
	dirs         map[string]bool
	declarations map[name][]*declaration // by name; a name can have several, for methods and for build tags
	mentions     map[number]string       // each number in the code, with one place where it is
}

// readCode parses all Go files, whatever their build tags. It leaves out the directories that
// leftOut lists, and, as the go command does, directories whose names begin with a dot or an
// underscore or are testdata.
func readCode(repository fs.FS, leftOut ...string) (*code, []finding) {
	c := &code{dirs: make(map[string]bool), declarations: make(map[name][]*declaration), mentions: make(map[number]string)}
	mod, err := fs.ReadFile(repository, "go.mod")
	if err != nil {
		return c, []finding{{"code", "go.mod", err.Error()}}
	}
	c.module = strings.TrimSpace(strings.TrimPrefix(strings.SplitN(string(mod), "\n", 2)[0], "module"))
	var faults []finding
	err = fs.WalkDir(repository, ".", func(file string, d fs.DirEntry, err error) error {
		switch base := path.Base(file); {
		case err != nil:
			return err
		case d.IsDir() && file != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata" || slices.Contains(leftOut, file)):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, ".go"):
			return nil
		}
		text, err := fs.ReadFile(repository, file)
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, text, parser.ParseComments)
		if err != nil {
			faults = append(faults, finding{"code", file, err.Error()})
			return nil
		}
		c.add(file, set, parsed)
		return nil
	})
	if err != nil {
		faults = append(faults, finding{"code", ".", err.Error()})
	}
	return c, faults
}

// A source is one parsed file.
type source struct {
	code    *code
	file    string
	set     *token.FileSet
	parsed  *ast.File
	imports map[string]string // key: the package's name in the file; value: the package's directory if it belongs to this module, otherwise ""
}

func (c *code) add(file string, set *token.FileSet, parsed *ast.File) {
	dir := path.Dir(file)
	c.dirs[dir] = true
	s := &source{c, file, set, parsed, make(map[string]string)}
	for _, i := range parsed.Imports {
		imported := strings.Trim(i.Path.Value, `"`)
		known := path.Base(imported)
		if i.Name != nil {
			known = i.Name.Name
		}
		within, ours := strings.CutPrefix(imported, c.module+"/")
		if !ours {
			within = ""
		}
		s.imports[known] = within
	}
	for _, n := range s.numbersOf(parsed.FileStart, parsed.FileEnd, parsed) {
		c.mentions[n] = file
	}
	for _, d := range parsed.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			ident := d.Name.Name
			if d.Recv != nil {
				ident = "." + ident
			}
			begin := d.Pos()
			if d.Doc != nil {
				begin = d.Doc.Pos()
			}
			decl := s.declare(begin, d.End(), d)
			decl.isFunc = true
			decl.skipped = d.Body != nil && slices.ContainsFunc(d.Body.List, skips)
			c.declarations[name{dir, ident}] = append(c.declarations[name{dir, ident}], decl)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				value, ok := spec.(*ast.ValueSpec)
				if !ok {
					continue
				}
				begin := value.Pos()
				if value.Doc != nil {
					begin = value.Doc.Pos()
				} else if d.Doc != nil && len(d.Specs) == 1 {
					begin = d.Doc.Pos()
				}
				decl := s.declare(begin, value.End(), value)
				for _, id := range value.Names {
					c.declarations[name{dir, id.Name}] = append(c.declarations[name{dir, id.Name}], decl)
				}
			}
		}
	}
}

func (s *source) declare(begin, end token.Pos, n ast.Node) *declaration {
	d := &declaration{where: s.file, inTest: strings.HasSuffix(s.file, "_test.go"), numbers: s.numbersOf(begin, end, n)}
	var look func(n ast.Node) bool
	look = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if dir, isPackage := s.packageOf(n.X); isPackage {
				if dir != "" {
					d.uses = append(d.uses, name{dir, n.Sel.Name})
				}
				return false
			}
			// The selected name may be a method or a field of this package, or of any package of
			// the module that the file imports. The parser does not tell which, so all of these are
			// recorded.
			d.uses = append(d.uses, name{path.Dir(s.file), "." + n.Sel.Name})
			for _, within := range s.imports {
				if within != "" {
					d.uses = append(d.uses, name{within, "." + n.Sel.Name})
				}
			}
			ast.Inspect(n.X, look)
			return false // so that isTopLevel does not see the selected name
		case *ast.Ident:
			if s.isTopLevel(n) {
				d.uses = append(d.uses, name{path.Dir(s.file), n.Name})
			}
		case *ast.CallExpr:
			d.fails = d.fails || s.isFailure(n)
		}
		return true
	}
	ast.Inspect(n, look)
	return d
}

// packageOf reports whether x is the name of an imported package. dir is its directory in this
// module, or "" if it belongs to another module.
func (s *source) packageOf(x ast.Expr) (dir string, isPackage bool) {
	id, ok := x.(*ast.Ident)
	if !ok || id.Obj != nil {
		return "", false
	}
	dir, isPackage = s.imports[id.Name]
	return dir, isPackage
}

// isTopLevel reports whether an identifier may refer to a declaration at the top level of the
// package, in this file or in another one. The parser does not resolve names of other files.
func (s *source) isTopLevel(id *ast.Ident) bool {
	return id.Obj == nil || s.parsed.Scope.Lookup(id.Name) == id.Obj
}

// isFailure reports whether a call may make a test fail: a method such as Errorf or Fatal of a
// testing.TB, or of a type that embeds or contains one, or goleak.VerifyNone.
func (s *source) isFailure(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	if id, ok := f.X.(*ast.Ident); ok && id.Obj == nil {
		if _, imported := s.imports[id.Name]; imported {
			return id.Name == "goleak" && strings.HasPrefix(f.Sel.Name, "VerifyNone") && len(call.Args) > 0
		}
	}
	switch f.Sel.Name {
	case "Fatal", "Fatalf", "Errorf", "FailNow":
		return true
	case "Error":
		return len(call.Args) > 0 // an error's method Error takes no arguments
	case "Fail":
		id, ok := f.X.(*ast.Ident)
		return ok && id.Obj != nil && isTesting(id)
	}
	return false
}

// isTesting reports whether an identifier is a parameter of a type like *testing.T.
func isTesting(id *ast.Ident) bool {
	field, ok := id.Obj.Decl.(*ast.Field)
	if !ok {
		return false
	}
	t := field.Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	sel, ok := t.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == "testing"
}

// skips reports whether a statement of a test is a call of t.Skip or the like.
func skips(s ast.Stmt) bool {
	e, ok := s.(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := e.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	return ok && (f.Sel.Name == "Skip" || f.Sel.Name == "Skipf" || f.Sel.Name == "SkipNow")
}

// numbersOf returns the requirement numbers in the comments between two positions and in the
// strings of the node n.
func (s *source) numbersOf(begin, end token.Pos, n ast.Node) []number {
	var all []number
	for _, group := range s.parsed.Comments {
		if group.Pos() >= begin && group.End() <= end {
			all = append(all, numbers(group.Text())...)
		}
	}
	ast.Inspect(n, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			all = append(all, numbers(lit.Value)...)
		}
		return true
	})
	return all
}
