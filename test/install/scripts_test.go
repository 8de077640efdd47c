package install

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The scripts of the packages stop the service at a removal. If the other package takes the place, and at an upgrade, they do
// not: the daemon that runs is restarted.
func TestPackageScripts(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("a /run of its own needs root")
	}
	const (
		stopped   = "stop nfsrdmad.socket nfsrdmad.service\n"
		disabled  = "disable --now nfsrdmad.socket nfsrdmad.service\n"
		reloaded  = "daemon-reload\n"
		restarted = reloaded + "try-restart nfsrdmad.service\n"
	)
	for _, c := range []struct{ script, args, owners, want string }{
		{"deb/prerm", "remove", "", stopped},
		{"deb/prerm", "remove in-favour nfsrdmad-verbs 1.0", "", ""},
		{"deb/prerm", "upgrade 1.0", "", ""},
		{"deb/postinst", "configure", "", restarted},
		{"deb/postinst", "configure 1.0", "", restarted},
		{"rpm/preun", "0", "nfsrdmad", disabled},
		{"rpm/preun", "0", `nfsrdmad\nnfsrdmad-verbs`, ""},
		{"rpm/preun", "1", `nfsrdmad\nnfsrdmad`, ""},
		{"rpm/post", "1", "", restarted},
		{"rpm/post", "2", "", reloaded},
		{"rpm/postun", "1", "", restarted},
		{"rpm/postun", "0", "", reloaded},
	} {
		t.Run(c.script+" "+c.args, func(t *testing.T) {
			bin := t.TempDir()
			for program, line := range map[string]string{"systemctl": `echo "$@"`, "systemd-sysusers": ":", "rpm": "printf '" + c.owners + `\n'`} {
				if err := os.WriteFile(filepath.Join(bin, program), []byte("#!/bin/sh\n"+line+"\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			script, err := os.ReadFile(filepath.Join("../../packaging", c.script))
			if err != nil {
				t.Fatal(err)
			}
			line := fmt.Sprintf("mount -t tmpfs none /run && mkdir -p /run/systemd/system && PATH=%s:$PATH sh -s -- %s", bin, c.args)
			shell := exec.Command("unshare", "--mount", "sh", "-c", line)
			shell.Stdin = bytes.NewReader(script)
			out, err := shell.CombinedOutput()
			if err != nil || string(out) != c.want {
				t.Errorf("%v\n%swant\n%s", err, out, c.want)
			}
		})
	}
}
