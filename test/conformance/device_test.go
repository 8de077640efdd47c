package conformance

import (
	"strings"
	"testing"
	"testing/fstest"
)

// A row that cites a test of the transport must say over which devices the test runs.
func TestDeviceOfARow(t *testing.T) {
	const index = "| rows | table |\n|---|---|\n| V1-1..2 | [a](conformance-a.md) |\n"
	const code = `package rdma

import "testing"

// V1-1.
func TestOne(t *testing.T) { t.Fatal("no") }

// V1-2.
func TestTwo(t *testing.T) { t.Fatal("no") }

var overBoth = []func(*testing.T){TestOne}
`
	for _, c := range []struct{ one, two, wrong string }{
		{"both", "memory: it breaks the device", ""},
		{"", "memory: it breaks the device", `V1-1 names the device ""`},
		{"memory: it breaks the device", "memory: it breaks the device", "V1-1 names"},
		{"both", "both", `V1-2 names the device "both"`},
		{"both", "memory: so", "V1-2 names"},
	} {
		found := check(fstest.MapFS{
			"go.mod":                     {Data: []byte("module example.org/m\n")},
			"docs/conformance.md":        {Data: []byte(index)},
			"transport/rdma/one_test.go": {Data: []byte(code)},
			"docs/conformance-a.md": {Data: []byte("| V1-1 | RFC 8166 §4 | both | It does the one thing. | rdma.TestOne | " + c.one + " |\n" +
				"| V1-2 | RFC 8166 §4 | both | It does the other thing. | rdma.TestTwo | " + c.two + " |\n")},
		})
		var all []string
		for _, f := range found {
			all = append(all, f.String())
		}
		text := strings.Join(all, "\n")
		if (text == "") != (c.wrong == "") || !strings.Contains(text, c.wrong) {
			t.Errorf("%+v: found %q", c, text)
		}
	}
}
