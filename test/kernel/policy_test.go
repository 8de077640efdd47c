//go:build kernel

package kernel

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// A client without Kerberos can use only the exports that accept AUTH_SYS from its network. The
// server looks up the groups of a user if the export says so, and then ignores the groups that
// the client sends.
func TestPolicy(t *testing.T) {
	overVersions(t, func(t *testing.T, how string) {
		needsDaemon(t)
		n := lab.NewNetwork(t)
		base := t.TempDir()
		s := &server{t: t, network: n, folder: filepath.Join(base, "export"), env: []string{"EXPORT=/"}}
		if err := os.Chmod(base, 0o755); err != nil {
			t.Fatal(err)
		}
		flags := []string{}
		for name, options := range map[string]string{
			"open": "", "strict": ",sec=krb5p", "near": ",sec=krb5p,sec=sys@10.0.2.0/24", "far": ",sec=sys,sec=krb5p@10.0.2.0/24",
			"groups": ",manage_gids",
		} {
			folder := filepath.Join(s.folder, name)
			if err := os.MkdirAll(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(folder, "file")
			if err := os.WriteFile(file, []byte(name+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			if name == "groups" {
				// alice is in group 12000 on the server. Her client does not send this group.
				if err := os.Chown(file, 0, 12000); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(file, 0o640); err != nil {
					t.Fatal(err)
				}
			}
			flags = append(flags, "--export", folder+":/"+name+",rw,no_root_squash"+options)
		}
		command := lab.DaemonCommand(daemon(t), filepath.Join(base, "state"), flags...)
		s.daemon = lab.StartServer(t, n, "nfsrdmad", append(withUsers(t, base), command...), lab.PortRDMA, lab.PortTCP)
		s.run(lab.Options{Limit: 2 * time.Minute}, "policy", how)
	})
}
