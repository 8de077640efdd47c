package architecture

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```")
)

// anchors returns the anchors that GitHub makes from a document's headings.
func anchors(text string) map[string]bool {
	all := make(map[string]bool)
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || 'a' <= r && r <= 'z' || '0' <= r && r <= '9':
				return r
			}
			return -1
		}, strings.ToLower(m[1]))
		all[anchor] = true
	}
	return all
}

// Each link in the documents of the repository has a target.
func TestLinksLeadSomewhere(t *testing.T) {
	const root = "../.."
	files := []string{filepath.Join(root, "README.md"), filepath.Join(root, "CHANGELOG.md")}
	for _, below := range []string{"docs/*.md", "docs/internals/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, below))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(string(b), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			target := file
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(file), m[1])
			}
			text, err := os.ReadFile(target)
			if err != nil {
				t.Errorf("%s: %s is not there", filepath.Base(file), m[1])
				continue
			}
			if m[2] != "" && !anchors(string(text))[m[2]] {
				t.Errorf("%s: %s has no heading %q", filepath.Base(file), filepath.Base(target), m[2])
			}
		}
	}
}
