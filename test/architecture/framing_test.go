package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sharedWire are the names of transport/rdma/wire that all versions of RPC-over-RDMA have in common:
// segments, chunks, and the private data of the connection manager.
var sharedWire = []string{
	"Segment", "ReadSegment", "ReadSegmentSize", "ReadList", "WriteList", "WriteChunk", "ReplyChunk", "Offer", "Lists",
	"PrivateData", "PrivateDataSize", "ParsePrivateData", "DefaultInline", "MaxInline",
}

// headerMethods are methods of wire's types whose result depends on the form of a version's header.
var headerMethods = []string{"ReplySize", "ReplySize2", "PutReply", "PutReply2", "Size2", "Put2", "SoleHandle", "Wraps"}

// The responder and the requester serve all versions of RPC-over-RDMA. So only the framings of
// transport/rdma, in files whose names begin with "version", name headers of package wire.
func TestOnlyFramingsKnowHeaders(t *testing.T) {
	files, err := filepath.Glob("../../transport/rdma/*.go")
	if err != nil || len(files) < 20 {
		t.Fatal(len(files), err)
	}
	for _, name := range files {
		base := filepath.Base(name)
		if strings.HasSuffix(base, "_test.go") || strings.HasPrefix(base, "version") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := s.X.(*ast.Ident)
			if ok && x.Name == "wire" && !slices.Contains(sharedWire, s.Sel.Name) {
				t.Errorf("%s names wire.%s, which is part of one version's header: reach it through the framing", base, s.Sel.Name)
			}
			if slices.Contains(headerMethods, s.Sel.Name) {
				t.Errorf("%s calls %s, whose result depends on the version: reach it through the framing", base, s.Sel.Name)
			}
			return true
		})
	}
}
