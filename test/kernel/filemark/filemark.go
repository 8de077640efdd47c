// Package filemark makes the content of files by which a reader can tell whose they are.
package filemark

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Size is the length of a record, in bytes.
const Size = 128

// Make returns the content of the file path in a volume of a kind of file system. serial tells one version of the
// content from another.
func Make(kind, volume, path, serial string) []byte {
	text := strings.Join([]string{kind, volume, path, serial}, "|") + "|"
	return append(append([]byte(text), bytes.Repeat([]byte("."), Size-1-len(text))...), '\n')
}

// Check returns an error unless b is the content of the file path in this volume.
func Check(b []byte, kind, volume, path string) error {
	is := strings.Split(string(b), "|")
	if len(b) != Size || len(is) != 5 || is[0] != kind || is[1] != volume || is[2] != path {
		return fmt.Errorf("content %q, want that of %s in volume %s of %s", b, path, volume, kind)
	}
	return nil
}

// Fill writes files, and the directories on the way to them, into dir. If they exist, they stay the same files.
func Fill(dir, kind, volume string, paths []string) error {
	for _, path := range paths {
		file := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, Make(kind, volume, path, "0"), 0o644); err != nil {
			return err
		}
	}
	return nil
}
