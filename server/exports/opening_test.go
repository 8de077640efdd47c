package exports

import (
	"io/fs"
	"strings"
	"testing"
)

// The name of an export without its '/' is taken for a part of the directory. It comes after the last ':', because
// a directory may have one in its own name.
func TestNameWithoutASlashIsToldToTheUser(t *testing.T) {
	for dir, want := range map[string]string{"/srv/a:data": "write /srv/a:/data", "/srv/1:2/a:data": "write /srv/1:2/a:/data", "/srv/a:b:data": "write /srv/a:b:/data"} {
		if err := explain(dir, fs.ErrNotExist); !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}
