package server

import (
	"strconv"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/server/admin"
)

// A text that is shown stands for one text alone, and does nothing to a terminal.
func TestTextsAreShownReversibly(t *testing.T) {
	seen := make(map[string]string)
	for _, s := range []string{"/a", "/a\x80", "/a\x81", "/a\ufffd", "/a\u009b", "/a\x7f", `/a"`, `"/a"`, "0x2f61", "0x", "/a\n"} {
		for _, shown := range []string{"owner " + plain(s), "path " + plainPath(s)} {
			if !admin.IsPlain(shown) {
				t.Errorf("%q is shown as %q", s, shown)
			}
			if other, has := seen[shown]; has {
				t.Errorf("%q and %q are both shown as %q", s, other, shown)
			}
			seen[shown] = s
		}
		if s[0] != '/' {
			continue
		}
		path := plainPath(s)
		if path[0] == '"' {
			path, _ = strconv.Unquote(path)
		}
		if path != s {
			t.Errorf("%q comes back as %q", s, path)
		}
	}
}
