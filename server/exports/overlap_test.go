package exports

import (
	"os"
	"path/filepath"
	"testing"
)

// holds also works if it knows only the inodes, because mounts cannot be looked up, or only device
// and path, because the process may not search the directories above.
func TestLocationHolds(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"a/b/c", "ab", "a b/c"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var unlike uint64
	for _, how := range []string{"both", "inodes", "places"} {
		at := func(name string) *location {
			t.Helper()
			l, err := locate(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if l.device == "" || l.path == "" {
				t.Fatalf("the place of %s is not known", name)
			}
			switch how {
			case "inodes":
				l.device, l.path = "", ""
			case "places":
				unlike++
				l.chain = []inode{{number: unlike}}
			}
			return l
		}
		for _, c := range []struct {
			outer, inner string
			holds        bool
		}{
			{"a", "a", true}, {"a", "a/b", true}, {"a", "a/b/c", true}, {".", "a b/c", true}, {"a b", "a b/c", true},
			{"a", "ab", false}, {"a/b", "a", false}, {"ab", "a/b", false}, {"a", "a b", false}, {"a/b/c", "a b/c", false},
		} {
			if got := at(c.outer).holds(at(c.inner)); got != c.holds {
				t.Errorf("by %s: %s holds %s: %v", how, c.outer, c.inner, got)
			}
		}
	}
}
