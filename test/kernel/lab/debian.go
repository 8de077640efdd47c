package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// An archive gives access to Debian's package archive: to this machine's own apt sources, or to
// other suites, such as bookworm-backports. These have separate package lists, so that this
// machine's configuration does not change.
type archive struct {
	recipe  *recipe
	options []string // arguments of every apt command
}

// backports returns an archive with bookworm-backports.
func backports(r *recipe) (*archive, error) {
	return suites(r, "bookworm", "bookworm-updates", "bookworm-backports")
}

// suites returns an archive with these suites of Debian, from the mirror that this machine uses for
// bookworm. The last one is the default.
func suites(r *recipe, names ...string) (*archive, error) {
	site, err := mirror(r)
	if err != nil {
		return nil, err
	}
	lists := filepath.Join(r.folder, "apt-lists")
	if err := os.MkdirAll(filepath.Join(lists, "partial"), 0o755); err != nil {
		return nil, err
	}
	var sources strings.Builder
	for _, suite := range names {
		fmt.Fprintf(&sources, "deb %s %s main\n", site, suite)
	}
	// The file is not in the folder of the lists, because apt removes unknown files from there.
	sourceList := filepath.Join(r.folder, "sources.list")
	if err := os.WriteFile(sourceList, []byte(sources.String()), 0o644); err != nil {
		return nil, err
	}
	a := &archive{recipe: r, options: []string{
		"-o", "Dir::Etc::SourceList=" + sourceList, "-o", "Dir::Etc::SourceParts=/dev/null",
		"-o", "Dir::State::Lists=" + lists, "-o", "APT::Default-Release=" + names[len(names)-1],
	}}
	return a, a.apt("update", "-q")
}

// mirror returns the address of the mirror that this machine uses for bookworm.
func mirror(r *recipe) (string, error) {
	sites, err := r.read("apt-get", "indextargets", "--format", "$(SITE)", "Codename: bookworm", "Created-By: Packages")
	if err != nil {
		return "", err
	}
	site, _, _ := strings.Cut(strings.TrimSpace(string(sites)), "\n")
	if site == "" {
		return "", fmt.Errorf("this machine's apt sources have no Debian 12 (bookworm), which the lab's kernels and images come from")
	}
	return site, nil
}

func (a *archive) apt(args ...string) error {
	return a.recipe.run("apt-get", append(append([]string{}, a.options...), args...)...)
}

// kernelImage returns the package name of the newest stock kernel, such as
// linux-image-6.1.0-40-amd64.
func (a *archive) kernelImage() (string, error) {
	out, err := a.recipe.read("apt-cache", append(append([]string{}, a.options...), "depends", "linux-image-amd64")...)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(out)) {
		if name, found := strings.CutPrefix(strings.TrimSpace(line), "Depends: "); found && strings.HasPrefix(name, "linux-image-") {
			return name, nil
		}
	}
	return "", fmt.Errorf("linux-image-amd64 depends on no kernel image")
}

// download downloads a package without installing it, and returns the path of its file.
func (a *archive) download(name string) (file string, err error) {
	// The user that apt uses for downloads cannot write to this folder, so root downloads.
	if err := a.apt("-o", "APT::Sandbox::User=root", "download", "-q", name); err != nil {
		return "", err
	}
	return one(filepath.Join(a.recipe.folder, name+"_*.deb"))
}

// unpack downloads a package and unpacks it into a folder without installing it.
func (a *archive) unpack(name, into string) error {
	file, err := a.download(name)
	if err != nil {
		return err
	}
	defer os.Remove(file)
	return a.recipe.run("dpkg-deb", "-x", file, into)
}

// source unpacks the package linux-source-VERSION and returns the path of the tarball in it.
func (a *archive) source(version string) (string, error) {
	if err := a.unpack("linux-source-"+version, "source"); err != nil {
		return "", err
	}
	return one(filepath.Join(a.recipe.folder, "source/usr/src/linux-source-"+version+".tar.*"))
}
