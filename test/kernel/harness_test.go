//go:build kernel

package kernel

import (
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// TestHarness mounts Linux's own server over siw inside one guest. If it fails, the lab is
// broken, not the daemon.
func TestHarness(t *testing.T) {
	t.Parallel()
	n := lab.NewNetwork(t)
	g := lab.Boot(t, n, lab.Options{Limit: time.Minute}, script(t, "harness"))
	g.Await("compared")
	g.Signal("leave")
	g.Succeed()
}

// The lab reports a script's exit status to the test, and the test can kill a guest.
func TestHarnessTellsFailure(t *testing.T) {
	t.Parallel()
	n := lab.NewNetwork(t)
	if status := lab.Boot(t, n, lab.Options{}, "exit 7").Wait(); status != 7 {
		t.Errorf("status %d, not 7", status)
	}
	killed := lab.Boot(t, n, lab.Options{}, "event up; sleep 1000; event later")
	killed.Await("up")
	killed.Kill()
	if killed.Happens("later") {
		t.Error("a killed guest went on")
	}
}
