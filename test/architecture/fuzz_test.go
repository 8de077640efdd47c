package architecture

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// hashed matches the name that go test gives to an input that it found.
var hashed = regexp.MustCompile(`^[0-9a-f]{16}$`)

// hashedInputs returns the fuzz inputs that still have such a name, and the number of the inputs
// with another name.
func hashedInputs(repository fs.FS) (hashes []string, named int, err error) {
	err = fs.WalkDir(repository, ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && file != ".":
			return fs.SkipDir
		case d.IsDir() || !strings.Contains(file, "testdata/fuzz/"):
		case hashed.MatchString(path.Base(file)):
			hashes = append(hashes, file)
		default:
			named++
		}
		return nil
	})
	return hashes, named, err
}

// Each input in testdata/fuzz has a name that says which fault it found, or what it is for. An
// input that only reaches new code belongs into the cache of go test.
func TestFuzzInputsAreNamed(t *testing.T) {
	hashes, named, err := hashedInputs(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range hashes {
		t.Errorf("%s: name it after the fault that it found, or remove it", file)
	}
	if named == 0 {
		t.Error("no inputs were found")
	}
}
