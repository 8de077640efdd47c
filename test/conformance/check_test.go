package conformance

import (
	"strings"
	"testing"
	"testing/fstest"
)

// whole is a small repository without faults: a product, its tests, a suite that another package
// runs, and two tables.
var whole = map[string]string{
	"go.mod": "module example.org/m\n\ngo 1.26\n",
	"docs/conformance.md": `
| rows | table |
|---|---|
| IW-1..4 | [a](conformance-a.md) |
| V1-7, P-1 | [b](conformance-b.md) |
`,
	"docs/conformance-a.md": `
| row | source | who | requirement | proof |
|---|---|---|---|---|
| IW-1 | RFC 5040 §4.1 | both | It does the one thing. | rdma.TestOne, wire.TestPut |
| IW-2 | RFC 5040 §4.2, §4.3 | sender | It does the other thing. | rdma.TestTable |
| IW-3 | RFC 5041 §5.2(4a) | sender | It does not do that. | suite.ruleThree |
| IW-4 | RFC 5041 §6, RFC 5042 §2 | host | The machine does that. | host: the machine's own configuration |
`,
	"docs/conformance-b.md": `
| row | source | who | requirement | proof |
|---|---|---|---|---|
| V1-7 | RFC 8166 §4 | both | It goes in both ways. | rdma.FuzzSeven; untestable: not all inputs can be tried |
| P-1 | RFC 8166 §4 | peer | A peer may do that. | not used: this is never done here |
`,
	"rdma/rdma.go": "package rdma\n\n// One is IW-1.\nfunc One() int { return 1 }\n",
	"rdma/rdma_test.go": `package rdma

import "testing"

// IW-1: one is one.
func TestOne(t *testing.T) {
	t.Run("sub", func(t *testing.T) {
		if One() != 1 {
			t.Fatal("no")
		}
	})
}

var cases = []string{
	"IW-2 a", // what the table is for
}

func TestTable(t *testing.T) {
	for _, c := range cases {
		check(t, c)
	}
}

func check(t *testing.T, c string) {
	h := harness{t}
	h.want(c)
}

type harness struct{ testing.TB }

func (h harness) want(c string) { h.Errorf("%s", c) }
`,
	"rdma/fuzz_test.go": `//go:build linux

package rdma

import (
	"testing"

	"example.org/m/suite"
)

func FuzzSeven(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 7 { // V1-7
			t.Error("no")
		}
	})
}

func TestSuite(t *testing.T) { suite.Run(t) }
`,
	"wire/wire.go":      "package wire\n",
	"wire/wire_test.go": "package wire\n\nimport \"testing\"\n\n// IW-1.\nfunc TestPut(t *testing.T) { t.Error() ; t.Error(1) }\n",
	"suite/suite.go": `package suite

import "testing"

// Run runs the suite.
func Run(t *testing.T) {
	for _, rule := range rules {
		rule(t)
	}
}

var rules = []func(t *testing.T){ruleThree}

// IW-3.
func ruleThree(t *testing.T) { t.Fatal("no") }

// IW-3.
func leftOut(t *testing.T) { t.Fatal("no") }
`,
	"left/out.go":            "package out\n\n// IW-99 does not exist.\n",
	"rdma/testdata/bad_x.go": "this is no Go: IW-98\n",
}

// repository returns whole with edits. Each edit has the name of a file, an old text and the new
// text for it.
func repository(t *testing.T, edits [][3]string) fstest.MapFS {
	t.Helper()
	files := make(fstest.MapFS)
	for name, text := range whole {
		for _, e := range edits {
			if e[0] != name {
				continue
			}
			if strings.Count(text, e[1]) != 1 {
				t.Fatalf("%s has %q %d times", name, e[1], strings.Count(text, e[1]))
			}
			text = strings.Replace(text, e[1], e[2], 1)
		}
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return files
}

// check finds each kind of disagreement between tables and code. It finds nothing if they agree.
func TestCheckFinds(t *testing.T) {
	const a, b, index = "docs/conformance-a.md", "docs/conformance-b.md", "docs/conformance.md"
	const tests, fuzz, suite = "rdma/rdma_test.go", "rdma/fuzz_test.go", "suite/suite.go"
	for name, c := range map[string]struct {
		edits [][3]string
		rule  string // empty: no fault
		what  string
	}{
		"nothing": {},
		"a renamed test": {[][3]string{{tests, "func TestOne(", "func TestUno("}},
			"gone", "IW-1 cites rdma.TestOne: there is no such function"},
		"a test that moved to another package": {[][3]string{{a, "rdma.TestOne", "wire.TestOne"}}, "gone", "wire.TestOne"},
		"a package that is not there":          {[][3]string{{a, "rdma.TestOne", "rmda.TestOne"}}, "package", "no such package"},
		"an emptied test": {[][3]string{{tests, `	t.Run("sub", func(t *testing.T) {
		if One() != 1 {
			t.Fatal("no")
		}
	})`, ""}}, "cannot fail", "rdma.TestOne"},
		"a test that only computes": {[][3]string{{tests, `t.Fatal("no")`, `err.Error()`}}, "cannot fail", "rdma.TestOne"},
		"a test that only logs":     {[][3]string{{tests, `t.Fatal("no")`, `t.Log("no")`}}, "cannot fail", "rdma.TestOne"},
		"a helper that cannot fail": {[][3]string{{tests, `h.Errorf("%s", c)`, `println(c)`}}, "cannot fail", "rdma.TestTable"},
		"fmt.Errorf fails nothing": {[][3]string{{fuzz, `t.Error("no")`, `_ = fmt.Errorf("no")`}, {fuzz, `	"testing"

	"example`, `	"fmt"
	"testing"

	"example`}}, "cannot fail", "rdma.FuzzSeven"},
		"a test that skips itself": {[][3]string{{tests, `	for _, c := range cases {`, `	t.Skip("later")
	for _, c := range cases {`}}, "skipped", "rdma.TestTable"},
		"a test that no longer carries its number": {[][3]string{{tests, "// IW-1: one", "// One"}}, "not carried", "IW-1 cites rdma.TestOne"},
		"a table that no longer carries it":        {[][3]string{{tests, `"IW-2 a"`, `"a"`}}, "not carried", "IW-2 cites rdma.TestTable"},
		"a number that the table has in a comment": {[][3]string{{tests, `"IW-2 a", // what`, `"a", // IW-2: what`}}, "", ""},
		"a number in a helper only": {[][3]string{{tests, `"IW-2 a"`, `"a"`}, {tests, `	h := harness{t}`, `	h := harness{t} // IW-2`}},
			"not carried", "IW-2 cites rdma.TestTable"},
		"a number within a longer one": {[][3]string{{tests, "// IW-1: one", "// IW-12, XIW-1: one"}}, "not carried", "IW-1 cites rdma.TestOne"},
		"a rule that left its suite":   {[][3]string{{suite, "{ruleThree}", "{}"}}, "gone", "suite.ruleThree"},
		"a rule that never was in it":  {[][3]string{{a, "suite.ruleThree", "suite.leftOut"}}, "gone", "suite.leftOut"},
		"a suite that is not run":      {[][3]string{{fuzz, "suite.Run(t)", "suite.Ran(t)"}}, "gone", "suite.ruleThree"},
		"a missing row":                {[][3]string{{index, "IW-1..4", "IW-1..5"}}, "missing", "IW-5 has no row"},
		"a row beyond the index":       {[][3]string{{index, "IW-1..4", "IW-1..3"}}, "index", "IW-4 is not among the numbers"},
		"a row without a proof":        {[][3]string{{b, "not used: this is never done here", ""}}, "row", "P-1: has neither a test nor a reason"},
		"a reason without a mark":      {[][3]string{{b, "not used: this is", "this is"}}, "row", "neither package.Test nor a reason"},
		"a reason with another mark":   {[][3]string{{b, "not used: this", "no time: this"}}, "row", "neither package.Test nor a reason"},
		"a reason of one word":         {[][3]string{{b, "not used: this is never done here", "not used: yes"}}, "row", "says too little"},
		"a test without its package":   {[][3]string{{a, "rdma.TestOne", "TestOne"}}, "row", `"TestOne" is neither`},
		"a row without a requirement":  {[][3]string{{a, "It does the one thing.", ""}}, "row", "no sentence"},
		"a row without a source":       {[][3]string{{a, "RFC 5040 §4.1", "somewhere"}}, "row", `the source "somewhere"`},
		"a row with a cell too few":    {[][3]string{{a, "| both | It does the one", "| It does the one"}}, "row", "4 cells"},
		"two rows of one number":       {[][3]string{{b, "| P-1 |", "| V1-7 |"}}, "twice", "V1-7 has a row at conformance-b.md:4 already"},
		"a number that does not exist": {[][3]string{{tests, "IW-2 a", "IW-2 IW-77 a"}}, "unknown", "names IW-77"},
		"one in the product's code":    {[][3]string{{"rdma/rdma.go", "One is IW-1", "One is IW-78"}}, "unknown", "names IW-78"},
		"one at the end of a range":    {[][3]string{{tests, "IW-2 a", "IW-2..5 a"}}, "unknown", "names IW-5"},
		"a table outside the index":    {[][3]string{{index, "(conformance-b.md)", "(b.md)"}}, "index", "does not link to conformance-b.md"},
		"code that does not parse":     {[][3]string{{"wire/wire.go", "package wire", "package"}}, "code", "expected"},
	} {
		t.Run(name, func(t *testing.T) {
			found := check(repository(t, c.edits), "left")
			if c.rule == "" {
				for _, f := range found {
					t.Errorf("%s: %v", f.rule, f)
				}
				return
			}
			for _, f := range found {
				if f.rule == c.rule && strings.Contains(f.String(), c.what) {
					return
				}
			}
			t.Errorf("%s %q is not found: %v", c.rule, c.what, found)
		})
	}
}

// A fault breaks only one rule: check reports it once.
func TestOneFaultIsOneFinding(t *testing.T) {
	found := check(repository(t, [][3]string{{"rdma/rdma_test.go", "func TestOne(", "func TestUno("}}), "left")
	if len(found) != 1 {
		t.Errorf("%v", found)
	}
}

// check reports a package name in a table that matches more than one directory.
func TestAmbiguousPackage(t *testing.T) {
	r := repository(t, nil)
	r["other/rdma/x.go"] = &fstest.MapFile{Data: []byte("package rdma\n")}
	found := check(r, "left")
	if len(found) == 0 || found[0].rule != "package" || !strings.Contains(found[0].what, "which of other/rdma, rdma?") {
		t.Errorf("%v", found)
	}
	r["docs/conformance-a.md"] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(whole["docs/conformance-a.md"], "rdma.", "other/rdma."))}
	if found := check(r, "left"); len(found) == 0 || found[0].rule != "gone" {
		t.Errorf("%v", found)
	}
}
