//go:build kernel

package kernel

import (
	"os"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// One client has very many files of one of 50 exports open, with the limit of open files that the unit sets. Beyond the
// limit, a program's open() fails and the log says why. NFSRDMAD_OPEN_FILES is the number of files.
func TestManyOpenFiles(t *testing.T) {
	needsDaemon(t)
	t.Parallel()
	count := "1000"
	if everything() {
		count = "100000"
	}
	if text := os.Getenv("NFSRDMAD_OPEN_FILES"); text != "" {
		count = text
	}
	for name, args := range map[string][]string{
		"the unit's limit": {count, "1048576", "opened"}, // systemd/nfsrdmad.service
		"a small limit":    {"1000", "6000", "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := []string{"DAEMON=" + daemon(t), "WORKER=" + build(t, "test/kernel/worker")}
			t.Log(lab.Run(t, lab.NewNetwork(t), lab.Options{Memory: 1500, Limit: time.Hour, Env: env}, script(t, "many_opens"), args...))
		})
	}
}
