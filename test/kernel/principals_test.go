//go:build kernel

package kernel

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
	"github.com/nfsrdmad/nfsrdmad/test/krb5realm"
)

// TestPrincipals tests which principals Linux's own server lets use a file that one of them has
// open. It uses the table of test/nfs4suite: users with AUTH_SYS and, with the full matrix,
// principals of Kerberos as well. docs/nfs4.md lists the differences from nfsrdmad.
func TestPrincipals(t *testing.T) {
	t.Parallel()
	suite := filepath.Join(programs, "nfs4suite")
	if out, err := exec.Command("go", "test", "-c", "-o", suite, "github.com/nfsrdmad/nfsrdmad/test/nfs4suite").CombinedOutput(); err != nil {
		t.Fatalf("building the suite: %v\n%s", err, out)
	}
	ask := func(t *testing.T, what string, n *lab.Network, o lab.Options) {
		if said := lab.Run(t, n, o, script(t, "principals"), suite); !strings.Contains(said, "--- PASS: TestPrincipals/"+what+" (") {
			t.Errorf("the suite has not asked:\n%s", said)
		}
	}
	t.Run("sys", func(t *testing.T) { ask(t, "linux", lab.NewNetwork(t), lab.Options{}) })
	if !everything() {
		return
	}
	t.Run("krb5", func(t *testing.T) {
		n := lab.NewNetwork(t)
		k := inRealm(t, n, krb5realm.Options{})
		k.addKernelServer(t)
		for _, user := range []string{"daemon", "bin", "root"} {
			if err := k.realm.AddService(user); err != nil {
				t.Fatal(err)
			}
			if err := k.realm.Keytab(filepath.Join(k.base, "client.keytab"), user); err != nil {
				t.Fatal(err)
			}
		}
		ask(t, "linux_under_Kerberos", n, lab.Options{Limit: 15 * time.Minute, Env: k.env})
	})
}
