package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
)

// withoutFS names the files of vfs/local whose types know no FS. Of the file system, and of the FS, they see
// only what the interfaces nodeHost and disk have; so tests can drive them without a file system.
var withoutFS = []string{"credential_switch.go", "durability.go", "node.go", "sweep_turn.go", "version.go"}

// The daemon's identity, and the table of nodes with its versions and its durability, name neither the type FS nor
// a field fs.
func TestPartsOfLocalKnowNoFS(t *testing.T) {
	for _, name := range withoutFS {
		files := token.NewFileSet()
		parsed, err := parser.ParseFile(files, filepath.Join("../../vfs/local", name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && (id.Name == "FS" || id.Name == "fs") {
				t.Errorf("%v names %s: let nodeHost or disk tell what it needs", files.Position(id.Pos()), id.Name)
			}
			return true
		})
	}
}
