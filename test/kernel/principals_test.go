//go:build kernel

package kernel

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// TestPrincipals asks Linux's own server which principals may use a file that one of them has open, by the table that
// test/nfs4suite has for ours. What differs is in docs/nfs4.md.
func TestPrincipals(t *testing.T) {
	t.Parallel()
	suite := filepath.Join(programs, "nfs4suite")
	if out, err := exec.Command("go", "test", "-c", "-o", suite, "github.com/nfsrdmad/nfsrdmad/test/nfs4suite").CombinedOutput(); err != nil {
		t.Fatalf("building the suite: %v\n%s", err, out)
	}
	said := lab.Run(t, lab.NewNetwork(t), lab.Options{}, script(t, "principals"), suite)
	if !strings.Contains(said, "--- PASS: TestPrincipals/linux") {
		t.Errorf("the suite has not asked:\n%s", said)
	}
}
