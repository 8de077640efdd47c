//go:build kernel

package kernel

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// A client follows logs that a program on the server writes and rotates. It reads what was written, and no NUL, which
// nothing writes. NFSRDMAD_FOLLOW_BYTES is the number of bytes that each reader reads.
func TestFollowedLogs(t *testing.T) {
	t.Parallel()
	total := 1_000_000
	if everything() {
		total = 10_000_000
	}
	if text := os.Getenv("NFSRDMAD_FOLLOW_BYTES"); text != "" {
		var err error
		if total, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	limit := lab.Options{Limit: 5*time.Minute + time.Duration(total)*30*time.Microsecond}
	if os.Getenv("NFSRDMAD_LAB_SERVER") != "" { // in the client's own guest, because the writer must be local
		env := []string{"WORKER=" + build(t, "test/kernel/worker")}
		t.Log(lab.Run(t, lab.NewNetwork(t), lab.Options{Limit: limit.Limit, Env: env}, script(t, "follow"), strconv.Itoa(total), "knfsd"))
		return
	}
	s := serve(t, "async")
	g := s.boot(limit, "follow", strconv.Itoa(total))
	g.Await("mounted")
	// A client's WRITEs may overtake one another, which makes NULs for a moment. So the writer is a local program.
	stop := filepath.Join(t.TempDir(), "stop")
	writer := exec.Command(build(t, "test/kernel/worker"), "logs", s.folder, stop)
	if err := writer.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(stop, nil, 0o644); err != nil {
			t.Error(err)
		}
		if err := writer.Wait(); err != nil {
			t.Errorf("writing the logs: %v", err)
		}
	})
	t.Log(g.Succeed())
}
