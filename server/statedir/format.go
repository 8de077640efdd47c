package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nfsrdmad/nfsrdmad/internal/durable"
)

// current is the format of state directories that this version of the daemon writes, and the latest that it reads. It grows
// when an earlier version would misread what is in the directory. The versions before the first format wrote no mark.
const current = 1

const laterRemedy = "install that version again, or use a backup of the directory that was made before the upgrade, without " + Records + " if clients were served since"

// Format returns the format of a directory, or 0 if it has no mark. The error says that it is of a later version.
func Format(dir string) (uint32, error) {
	file := filepath.Join(dir, Version)
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32)
	switch {
	case err != nil || n == 0:
		return 0, &fault{file, fmt.Sprintf("is damaged, and has %q instead of a number", plain(string(b[:min(len(b), 32)]))), fmt.Sprintf("write %d into it", current)}
	case n > current:
		return uint32(n), &fault{file, fmt.Sprintf("says that a later version of nfsrdmad has used the directory (format %d, and this version knows %d)", n, current), laterRemedy}
	}
	return uint32(n), nil
}

// Mark writes the present format into a directory.
func Mark(dir string) error {
	if n, err := Format(dir); err != nil || n == current {
		return err
	}
	return durable.Write(filepath.Join(dir, Version), fmt.Appendln(nil, current))
}
