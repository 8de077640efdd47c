// Package conformance holds the tests to the standards: every requirement of the
// protocols below NFS has a number (testdata/rows.txt), and each number is named
// by a test that proves the requirement, or by a line of docs/conformance*.md
// that says why no test can.
package conformance

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

var (
	// Rows by name, one or a range: IW-12, V1-30..34.
	named = regexp.MustCompile(`\b(IW|V1|P|L)-(\d+)(?:\.\.(?:(?:IW|V1|P|L)-)?(\d+))?\b`)
	// A line of a table, and what it says of the rows in its first column.
	tableLine = regexp.MustCompile(`^\|([^|]*)\|(.*)\|\s*$`)
)

// rows are the numbers of all requirements.
func rows(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile("testdata/rows.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Fields(string(b))
	if len(all) < 300 {
		t.Fatalf("%d rows only", len(all))
	}
	return all
}

// names calls found for each row that text names.
func names(text string, found func(row string)) {
	for _, m := range named.FindAllStringSubmatch(text, -1) {
		first, _ := strconv.Atoi(m[2])
		last := first
		if m[3] != "" {
			last, _ = strconv.Atoi(m[3])
		}
		for n := first; n <= last && n < first+1000; n++ {
			found(fmt.Sprintf("%s-%d", m[1], n))
		}
	}
}

// inTests are the rows that tests name, with where.
func inTests(t *testing.T) map[string]string {
	t.Helper()
	where := make(map[string]string)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2 {
			return fs.SkipDir
		}
		isTest := strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/rdmatest/") && strings.HasSuffix(path, ".go")
		if d.IsDir() || !isTest || strings.Contains(path, "test/conformance/") {
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		names(string(b), func(row string) { where[row] = path })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return where
}

// inDocuments are the rows that the tables of docs/conformance*.md speak of,
// with what they say.
func inDocuments(t *testing.T) map[string]string {
	t.Helper()
	says := make(map[string]string)
	files, err := filepath.Glob(filepath.Join(root, "docs/conformance*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
			m := tableLine.FindStringSubmatch(lines.Text())
			if m == nil {
				continue
			}
			names(m[1], func(row string) {
				if words := strings.Trim(m[2], " |-"); words == "" {
					t.Errorf("%s: %s stands there without a reason", filepath.Base(file), row)
				} else {
					says[row] = words
				}
			})
		}
	}
	return says
}

func TestEveryRequirementIsTestedOrExplained(t *testing.T) {
	tests, documents := inTests(t), inDocuments(t)
	missing := 0
	for _, row := range rows(t) {
		if tests[row] == "" && documents[row] == "" {
			missing++
			t.Errorf("%s: no test names it, and no line of docs/conformance*.md says why", row)
		}
	}
	if missing > 0 {
		t.Logf("%d requirements are neither tested nor explained", missing)
	}
}

// A row that is named and does not exist is a slip of the pen.
func TestNoRowIsMadeUp(t *testing.T) {
	known := make(map[string]bool)
	for _, row := range rows(t) {
		known[row] = true
	}
	for row, where := range inTests(t) {
		if !known[row] {
			t.Errorf("%s names %s, which does not exist", where, row)
		}
	}
	for row := range inDocuments(t) {
		if !known[row] {
			t.Errorf("docs/conformance*.md speak of %s, which does not exist", row)
		}
	}
}

// Every document is reached from the index.
func TestIndexNamesEveryDocument(t *testing.T) {
	index, err := os.ReadFile(filepath.Join(root, "docs/conformance.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(root, "docs/conformance-*.md"))
	for _, file := range files {
		if !strings.Contains(string(index), "("+filepath.Base(file)+")") {
			t.Errorf("docs/conformance.md does not name %s", filepath.Base(file))
		}
	}
}
