package logline

import (
	"regexp"
	"strings"
	"testing"
)

// hard matches words and forms that are hard to read, or for which the protocols have another word.
var hard = regexp.MustCompile(`(?i)\b(time of grace|whoever|whom|somebody|of before|untold|are told|is told|parted|told)\b`)

// Each line says in one sentence what happened, and an administrator what to do.
func TestLinesAreReadOnce(t *testing.T) {
	seen := make(map[string]bool)
	for l := range All() {
		switch {
		case seen[l.Text]:
			t.Errorf("%q is there twice", l.Text)
		case l.Do == "":
			t.Errorf("%q does not say what to do", l.Text)
		case len(l.Text) > 180:
			t.Errorf("%q has %d letters: let its fields or its advice say a part of it", l.Text, len(l.Text))
		case strings.Contains(l.Do, "|") || strings.Contains(l.Do, "\n"):
			t.Errorf("%q: the advice is a cell of a table", l.Text)
		}
		for _, s := range []string{l.Text, l.Do} {
			if m := hard.FindString(s); m != "" {
				t.Errorf("%q: write %q in plain words", s, m)
			}
		}
		seen[l.Text] = true
	}
}
