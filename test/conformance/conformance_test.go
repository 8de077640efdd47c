package conformance

import (
	"os"
	"testing"
)

// The tables and the code of this repository fit together. Left out is this
// package, whose fixtures name numbers that do not exist.
func TestTablesAndCodeFitTogether(t *testing.T) {
	for _, f := range check(os.DirFS("../.."), "test/conformance") {
		t.Error(f)
	}
}
