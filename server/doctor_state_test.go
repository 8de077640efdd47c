package server_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/server/servertest"
)

// Root checks the state directory of the service, which belongs to the service's user, as the service finds it. Its files
// have to belong to the same user, or to root.
func TestDoctorChecksForTheService(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("gives files to other users: needs root")
	}
	const service, other = 4711, 4712
	for owner, want := range map[int]string{
		service: "yes      state directory", 0: "yes      state directory", other: "no       state directory",
	} {
		dir := filepath.Join(t.TempDir(), "state")
		key := filepath.Join(dir, "handle.key")
		if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(key, make([]byte, 32), 0o600), os.Chown(dir, service, service), os.Chown(key, owner, owner)); err != nil {
			t.Fatal(err)
		}
		p := nfsrdmad(t, "doctor", "--rdma", "none", "--tcp", servertest.FreePort(t, ownLoopback()).String(), "--state-dir", dir)
		if status := p.Wait(); (status == 0) != strings.HasPrefix(want, "yes") || !strings.Contains(p.Output(), want) {
			t.Errorf("a key of user %d: status %d, want %q:\n%s", owner, status, want, p.Output())
		}
		if !strings.Contains(p.Output(), "4711") {
			t.Errorf("the owner of the directory is not named:\n%s", p.Output())
		}
	}
}
