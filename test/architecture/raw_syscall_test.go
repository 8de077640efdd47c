package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// rawCalls is the file that states the rule for raw system calls. Only this file and
// rawCallsOfSockets may make raw system calls.
const (
	rawCalls          = "vfs/local/raw_syscall.go"
	rawCallsOfSockets = "transport/tcp/raw_syscall.go"
)

// quick lists functions of the packages syscall and unix that make raw system calls themselves
// but may be called anyway. Each has the reason. rawCalls states the rule.
var quick = map[string]string{
	"Capget":            "reads the thread's credential",
	"Capset":            "writes a new credential of the thread in memory",
	"Geteuid":           "reads the thread's credential",
	"Getegid":           "reads the thread's credential",
	"Getgroups":         "reads the thread's credential",
	"Getrlimit":         "reads the process's limits",
	"Getrusage":         "reads the process's counters",
	"Uname":             "reads a constant",
	"Sysinfo":           "reads counters",
	"Umask":             "sets a number of the process",
	"Kill":              "sends a signal",
	"Socket":            "makes an object in memory",
	"Pipe2":             "makes an object in memory",
	"EpollCreate1":      "makes an object in memory",
	"EpollCtl":          "adds a device's descriptor to an object in memory",
	"Faccessat":         "reads the thread's credential that way, and looks at the file by a call that may block",
	"Access":            "reads the thread's credential that way, and looks at the file by a call that may block",
	"Exec":              "ends the program: no goroutine is left that could wait",
	"AllThreadsSyscall": "stops every thread by its contract; made before there is any work",
}

// The code makes raw system calls only where rawCalls permits it. A raw system call keeps its
// processor, so one that waits stops the whole process at the next garbage collection.
func TestRawSystemCallsAreJudged(t *testing.T) {
	used := map[string]map[string]bool{"syscall": {}, "golang.org/x/sys/unix": {}}
	seen := map[string]int{}
	err := filepath.WalkDir("../..", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(filepath.ToSlash(file), "../../")
		for _, group := range parsed.Comments {
			for _, c := range group.List {
				if strings.HasPrefix(c.Text, "//go:linkname") {
					t.Errorf("%s: %s: linkname reaches what this test cannot see", name, c.Text)
				}
			}
		}
		imported := map[string]string{} // import paths, by the name in the file
		for _, i := range parsed.Imports {
			p := strings.Trim(i.Path.Value, `"`)
			as := path.Base(p)
			if i.Name != nil {
				as = i.Name.Name
			}
			imported[as] = p
			if as == "." && used[p] != nil {
				t.Errorf("%s imports %s without a name: this test cannot see its calls", name, p)
			}
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			as, called, ok := selector(n)
			pkg := imported[as]
			if !ok || used[pkg] == nil {
				return true
			}
			if strings.Contains(called, "RawSyscall") || strings.Contains(called, "RawVfork") {
				if seen[name]++; name != rawCalls && name != rawCallsOfSockets {
					t.Errorf("%s uses %s.%s: only %s and %s make raw system calls, and say why each of them never waits", name, pkg, called, rawCalls, rawCallsOfSockets)
				}
			} else {
				used[pkg][called] = true
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{rawCalls, rawCallsOfSockets} {
		if seen[name] == 0 {
			t.Errorf("%s makes no raw system call: this test looks at the wrong files", name)
		}
	}
	for pkg, names := range used {
		raw := rawFunctions(t, pkg)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if raw[name] && quick[name] == "" {
				t.Errorf("%s.%s makes a raw system call: judge it by the rule in %s, and list it here", pkg, name, rawCalls)
			}
		}
	}
}

// selector returns the package name and the selected name if n is a selector.
func selector(n ast.Node) (pkg, name string, ok bool) {
	s, ok := n.(*ast.SelectorExpr)
	if !ok {
		return "", "", false
	}
	x, ok := s.X.(*ast.Ident)
	if !ok {
		return "", "", false
	}
	return x.Name, s.Sel.Name, true
}

// rawFunctions returns the functions of a package that make a raw system call, directly or
// through other functions of the package, on this machine's architecture.
func rawFunctions(t *testing.T, of string) map[string]bool {
	t.Helper()
	list := exec.Command("go", "list", "-f", `{{.Dir}}{{range .GoFiles}} {{.}}{{end}}`, of)
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	files := strings.Fields(string(out))
	calls := map[string][]string{}
	raw := map[string]bool{}
	for _, file := range files[1:] {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(files[0], file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || f.Body == nil {
				continue
			}
			ast.Inspect(f.Body, func(n ast.Node) bool {
				name := ""
				switch n := n.(type) {
				case *ast.Ident:
					name = n.Name
				case *ast.SelectorExpr:
					name = n.Sel.Name
				}
				switch lower := strings.ToLower(name); {
				case strings.HasPrefix(lower, "rawsyscall"), strings.HasPrefix(lower, "rawvfork"):
					raw[f.Name.Name] = true
				case name != "":
					calls[f.Name.Name] = append(calls[f.Name.Name], name)
				}
				return true
			})
		}
	}
	// Syscall and its variants tell the Go scheduler before they make the raw call.
	for _, told := range []string{"Syscall", "Syscall6", "Syscall9", "SyscallNoError", "syscall", "syscall6", "RawSyscallNoError"} {
		delete(raw, told)
	}
	delete(raw, "rawSyscallNoError")
	for grew := true; grew; {
		grew = false
		for f, others := range calls {
			if !raw[f] && slices.ContainsFunc(others, func(o string) bool { return raw[o] && o != f }) && !strings.HasPrefix(f, "Syscall") {
				raw[f], grew = true, true
			}
		}
	}
	if !raw["Geteuid"] && !raw["Getuid"] {
		t.Fatalf("no raw call is found in package %s for %s: this test no longer understands it", of, runtime.GOARCH)
	}
	return raw
}
