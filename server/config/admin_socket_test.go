package config

import (
	"os"
	"path/filepath"
	"testing"
)

// A command finds the socket of a daemon whose file has mistakes elsewhere, but never that of another daemon.
func TestPlacesInAFileWithMistakes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nfsrdmad.toml")
	for text, want := range map[string]string{
		"tcp = 5\nstate_dir = \"/s\"\n":                             "/s/admin.sock",
		"state_dir = \"/s\"\nno_such_key = 1\n[[export]]\npath = 5": "/s/admin.sock",
		"state_dir = \"/s\"\nadmin_socket = \"/a\"\ntcp = [":        "/a",
		"admin_socket = \"none\"\ntcp = 5":                          "",
		"# state_dir = \"/s\"\ntcp = [":                             "admin.sock",
		"tcp = yes\nstate_dir = \"/s\"":                             "?",
		"[\nadmin_socket = \"/a\"":                                  "?",
		"state_dir = 5":                                             "?",
		"admin_socket = \"a\"":                                      "?",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got := "?"
		if c, sure := ReadPlaces(file); sure {
			got = c.AdminPath()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
