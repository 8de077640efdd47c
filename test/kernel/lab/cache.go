package lab

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// CacheDir returns the folder of the parts that the lab has built, such as kernels:
// $NFSRDMAD_LAB_CACHE, or /var/cache/nfsrdmad-lab.
func CacheDir() string {
	if dir := os.Getenv("NFSRDMAD_LAB_CACHE"); dir != "" {
		return dir
	}
	return "/var/cache/nfsrdmad-lab"
}

// An artifact is a folder in the cache, with a name and ingredients. The path of the folder
// depends on the ingredients, so the lab never uses a build from old ingredients.
type artifact struct {
	name        string
	ingredients []string
}

func (a artifact) path() string {
	sum := sha256.New()
	for _, text := range a.ingredients {
		fmt.Fprintf(sum, "%d\n%s", len(text), text)
	}
	return filepath.Join(CacheDir(), a.name+"-"+hex.EncodeToString(sum.Sum(nil))[:12])
}

func (a artifact) ready() bool {
	_, err := os.Stat(a.path())
	return err == nil
}

// make builds the artifact unless it exists. It builds in a temporary folder and renames this
// folder when the build is complete, so an interrupted build leaves nothing that looks complete. It
// then removes older builds of the same name. A file lock makes concurrent builds wait for each
// other.
func (a artifact) make(build func(folder string) error) error {
	if a.ready() {
		return nil
	}
	if err := os.MkdirAll(CacheDir(), 0o755); err != nil {
		return fmt.Errorf("the lab's cache: %w (NFSRDMAD_LAB_CACHE names another folder)", err)
	}
	lock, err := os.OpenFile(filepath.Join(CacheDir(), a.name+".lock"), os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return fmt.Errorf("the lab's cache: %w (NFSRDMAD_LAB_CACHE names another folder)", err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("waiting for another set-up: %w", err)
	}
	if a.ready() {
		return nil
	}
	// This process has the lock, so unfinished folders belong to builds that were interrupted.
	a.removeAll(".unfinished." + a.name + ".")
	folder, err := os.MkdirTemp(CacheDir(), ".unfinished."+a.name+".")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	// apt downloads as another user, which must be able to enter the folder.
	if err := os.Chmod(folder, 0o755); err != nil {
		return err
	}
	if err := build(folder); err != nil {
		return err
	}
	a.removeOlder()
	return os.Rename(folder, a.path())
}

// removeOlder removes builds of the same name from other ingredients. Another artifact's name may
// begin with this one's, as uml-7.2 begins with uml.
func (a artifact) removeOlder() {
	entries, _ := os.ReadDir(CacheDir())
	for _, entry := range entries {
		rest, found := strings.CutPrefix(entry.Name(), a.name+"-")
		if _, err := hex.DecodeString(rest); found && err == nil && len(rest) == 12 {
			os.RemoveAll(filepath.Join(CacheDir(), entry.Name()))
		}
	}
}

func (a artifact) removeAll(prefix string) {
	entries, _ := os.ReadDir(CacheDir())
	for _, entry := range entries {
		if entry.IsDir() && strings.HasPrefix(entry.Name(), prefix) {
			os.RemoveAll(filepath.Join(CacheDir(), entry.Name()))
		}
	}
}
