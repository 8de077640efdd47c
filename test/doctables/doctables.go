// Package doctables checks that tables in the documentation agree with the code, for example with
// the registry of metrics. With the flag -update, the tests that use this package rewrite the
// tables.
package doctables

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of docs/configuration.md, docs/metrics.md and docs/running.md anew")

// rewritten returns a document with its tables rewritten. The function rows gets the heading above
// a table and the name of the table's first column. It returns the table's rows, or nil to leave
// the table as it is.
func rewritten(text string, rows func(heading, column string) []string) string {
	var out []string
	heading, inTable := "", false
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, "#") {
			heading = strings.Trim(line, "# `[]")
		}
		if !strings.HasPrefix(line, "|") {
			inTable = false
		} else if inTable {
			continue
		}
		out = append(out, line)
		if strings.HasPrefix(line, "|---") {
			column, _, _ := strings.Cut(strings.Trim(out[len(out)-2], "| "), " |")
			if anew := rows(heading, column); anew != nil {
				out, inTable = append(out, anew...), true
			}
		}
	}
	return strings.Join(out, "\n")
}

// Hold fails the test unless the tables of a document have the rows that the function rows returns.
// With the flag -update, it rewrites the tables instead.
func Hold(t *testing.T, file string, rows func(heading, column string) []string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := rewritten(string(b), rows)
	switch {
	case want == string(b):
	case *update:
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the tables of %s are not the registry's: run go test -run %s -update in the package of this test", file, t.Name())
	}
}
