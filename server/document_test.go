package server

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap/zapcore"

	"github.com/nfsrdmad/nfsrdmad/server/logline"
	"github.com/nfsrdmad/nfsrdmad/test/doctables"
)

// docs/metrics.md documents every metric with the text of its registry entry.
func TestEveryMetricIsDocumented(t *testing.T) {
	documented := 0
	doctables.Hold(t, "../docs/metrics.md", func(_, column string) (rows []string) {
		if column != "metric" {
			return nil
		}
		for _, m := range metrics {
			name := m.name
			if len(m.labels) > 0 {
				name += "{" + strings.Join(m.labels, ",") + "}"
			}
			rows = append(rows, fmt.Sprintf("| `%s` | %s |", name, m.meaning))
		}
		documented += len(rows)
		return rows
	})
	if documented != len(metrics) {
		t.Errorf("docs/metrics.md has tables for %d metrics", documented)
	}
}

// docs/running.md has a row for every line of the log, with the text of the registry.
func TestEveryLineOfTheLogIsDocumented(t *testing.T) {
	documented := 0
	doctables.Hold(t, "../docs/running.md", func(_, column string) (rows []string) {
		if column != "line" {
			return nil
		}
		for l := range logline.All() {
			text := l.Text
			if strings.HasSuffix(text, ": ") {
				text += "…"
			}
			rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |", text, l.Level, l.Do))
		}
		documented += len(rows)
		return rows
	})
	if documented == 0 {
		t.Error("docs/running.md has no table of the lines of the log")
	}
}

// Every line of the log above the level debug has its text, and its level, from the registry. Every line of the
// registry is written.
func TestEveryLineOfTheLogIsRegistered(t *testing.T) {
	levels := make(map[string]zapcore.Level) // by name in package logline
	for _, f := range parsed(t, "logline/*.go") {
		ast.Inspect(f, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == 1 {
				if call, ok := v.Values[0].(*ast.CallExpr); ok {
					levels[v.Names[0].Name] = map[string]zapcore.Level{"info": zapcore.InfoLevel, "warn": zapcore.WarnLevel, "fault": zapcore.ErrorLevel}[call.Fun.(*ast.Ident).Name]
				}
			}
			return true
		})
	}
	lines, used := 0, make(map[string]bool)
	for _, f := range append(parsed(t, "*.go"), parsed(t, "exports/*.go")...) {
		ast.Inspect(f, func(n ast.Node) bool {
			if name, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := name.X.(*ast.Ident); ok && x.Name == "logline" {
					used[name.Sel.Name] = true
				}
			}
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			level, written := map[string]zapcore.Level{"Info": zapcore.InfoLevel, "Warn": zapcore.WarnLevel, "Error": zapcore.ErrorLevel}[method.Sel.Name]
			at := 0
			if slices.Contains([]string{"write", "writeAbout", "Log", "Check"}, method.Sel.Name) {
				at, written = 1, true
			}
			if !written || len(call.Args) <= at {
				return true
			}
			switch text := call.Args[at].(type) {
			case *ast.BasicLit:
				t.Errorf("%s is a text of its own: write it in package logline", text.Value)
			case *ast.SelectorExpr:
				if x, ok := text.X.(*ast.Ident); ok && x.Name == "logline" {
					if lines++; at == 0 && levels[text.Sel.Name] != level {
						t.Errorf("%s is written at the level %s, and registered with %s", text.Sel.Name, level, levels[text.Sel.Name])
					}
				}
			}
			return true
		})
	}
	for name := range levels {
		if !used[name] {
			t.Errorf("logline.%s is registered, and nothing writes it", name)
		}
	}
	if lines < 40 {
		t.Errorf("%d lines are written: this test looks at the wrong files", lines)
	}
}

// parsed returns the files of a package, without tests.
func parsed(t *testing.T, pattern string) (all []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	return all
}

// The pages for programmers explain every option of an embedded server.
func TestOptionsOfEmbeddedServersAreDocumented(t *testing.T) {
	for page, options := range map[string]reflect.Type{
		"go-nfs.md": reflect.TypeFor[HandlerOptions](), "embedding.md": reflect.TypeFor[FileSystemOptions](),
	} {
		b, err := os.ReadFile("../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		for i := range options.NumField() {
			if name := options.Field(i).Name; !strings.Contains(string(b), "`"+name+"`") {
				t.Errorf("docs/%s does not explain %s", page, name)
			}
		}
	}
}
