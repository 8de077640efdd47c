package lab

import (
	"os"
	"path/filepath"
	"strings"
)

// Systemd is a version of systemd that a Machine can run.
type Systemd string

// The versions of systemd in the lab.
const (
	Systemd252 Systemd = "systemd-252" // Debian 12's own, which is installed on this machine
	Systemd254 Systemd = "systemd-254" // that of bookworm-backports
)

// systemdPackages are the packages of the lab's own systemd. A Machine unpacks them over this
// machine's root. They need no other package that is newer than Debian 12's.
var systemdPackages = []string{"systemd", "libsystemd-shared", "libsystemd0", "systemd-dev"}

func (s Systemd) artifact() artifact {
	return artifact{name: string(s), ingredients: systemdPackages}
}

// Ready reports whether the version has been set up.
func (s Systemd) Ready() bool { return s == Systemd252 || s.artifact().ready() }

func (s Systemd) effort() string { return "downloads 6 MB" }

func (s Systemd) build() error {
	return s.artifact().make(func(folder string) error {
		work := filepath.Join(folder, "work")
		if err := os.Mkdir(work, 0o755); err != nil {
			return err
		}
		r := &recipe{folder: work}
		debian, err := backports(r)
		if err != nil {
			return err
		}
		for _, name := range systemdPackages {
			file, err := debian.download(name)
			if err != nil {
				return err
			}
			if err := os.Rename(file, filepath.Join(folder, name+".deb")); err != nil {
				return err
			}
		}
		return os.RemoveAll(work)
	})
}

// debs returns the paths of the packages that a Machine unpacks for this version.
func (s Systemd) debs() string {
	if s == Systemd252 {
		return ""
	}
	var paths []string
	for _, name := range systemdPackages {
		paths = append(paths, filepath.Join(s.artifact().path(), name+".deb"))
	}
	return strings.Join(paths, " ")
}
