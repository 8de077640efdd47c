//go:build kernel

package kernel

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// aFile matches the end of a paragraph that names a file and precedes its text.
var aFile = regexp.MustCompile("`(/[^`]+)`:$")

// commandsOf returns the indented lines below a heading of a page as a shell script. It puts
// command before each line. Lines that follow the name of a file are written to that file.
func commandsOf(page, heading, command string) string {
	var b strings.Builder
	inside, file, previous := false, "", ""
	end := func() {
		if file != "" {
			b.WriteString("END\n")
		}
		file = ""
	}
	for line := range strings.SplitSeq(page, "\n") {
		if strings.HasPrefix(line, "## ") {
			inside = line == "## "+heading
		}
		text, indented := strings.CutPrefix(line, "    ")
		if !inside || !indented {
			end()
			if line != "" {
				previous = line
			}
			continue
		}
		if m := aFile.FindStringSubmatch(previous); m != nil {
			file, previous = m[1], ""
			fmt.Fprintf(&b, "cat >%s <<'END'\n", file)
		}
		if file == "" {
			text = command + " " + text
		}
		b.WriteString(text + "\n")
	}
	return b.String()
}

// The commands in docs/kerberos.md, and its configuration of an export, work as they are written.
func TestKerberosDocumentation(t *testing.T) {
	t.Parallel()
	needsDaemon(t)
	text, err := os.ReadFile("../../docs/kerberos.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	n := lab.NewNetwork(t)
	base := t.TempDir()
	keys, folder := lab.Folder(t, "keys"), filepath.Join(base, "export")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(folder, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	keytab, config := filepath.Join(keys, "server.keytab"), filepath.Join(base, "nfsrdmad.toml")
	said := commandsOf(page, "The server", "")
	said, _, _ = strings.Cut(said, "principals")
	said = strings.TrimSuffix(strings.TrimSpace(said), "[kerberos]")
	said = strings.NewReplacer("/srv/export", folder, "/etc/krb5.keytab", keytab).Replace(said)
	if err := os.WriteFile(config, []byte(said), 0o644); err != nil {
		t.Fatal(err)
	}
	command := lab.DaemonCommand(daemon(t), filepath.Join(base, "state"), "--config", config)
	s := &server{t: t, network: n, folder: folder, env: []string{"EXPORT=/export", "KEYTAB=" + keytab}}
	s.daemon = lab.StartServer(t, n, "nfsrdmad", append(withUsers(t, base), command...), lab.PortRDMA, lab.PortTCP)
	commands := script(t, "krb5_document") + commandsOf(page, "The realm", "documented") + commandsOf(page, "The client", "documented") +
		commandsOf(page, "A user", "as_alice")
	lab.Boot(t, n, lab.Options{Limit: 3 * time.Minute, Env: s.env, Writable: []string{keys}}, commands).Succeed()
	if _, err := os.Stat(filepath.Join(folder, "alice")); err != nil {
		t.Error(err)
	}
}
