package lab

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

//go:embed uml.config
var userModeConfig string

// treeFolders are the folders of Linux's source that are stored with the kernel, for guests to
// unpack, to list and to compile in part. All Makefiles and Kconfig files are stored as well,
// because the build reads them.
var treeFolders = []string{"arch/um", "arch/x86/um", "arch/x86/include", "arch/x86/entry", "include", "init", "kernel", "lib", "scripts"}

// A userModeSource says where the source of a user-mode kernel comes from, and how its
// configuration differs from uml.config.
type userModeSource struct {
	kernel  Kernel
	version string   // of the package linux-source-VERSION
	suites  []string // the suites of Debian that have the package
	without []string // options of uml.config that this version does not have
	with    []string // further lines of the configuration
	boot    []string // further parameters of the kernel
	narrow  bool     // its room for the processor's registers has a fixed size (see makeRoomForRegisters)
	effort  string
}

var userModeSources = []userModeSource{
	{
		kernel: UserMode, version: "6.12", suites: []string{"bookworm", "bookworm-updates", "bookworm-backports"},
		narrow: true, effort: "compiles Linux: some six minutes on two processors",
	},
	{
		kernel: UserMode7_2, version: "7.2", suites: []string{"sid"},
		// NFSv4.1 is part of every client since 7.1. CRYPTO_KRB5 chooses the encryption types of Kerberos.
		without: []string{"NFS_V4_1", "RPCSEC_GSS_KRB5_ENCTYPES_AES_SHA1", "RPCSEC_GSS_KRB5_ENCTYPES_AES_SHA2", "UML_NET"},
		with:    []string{"CONFIG_NFS_V4_0=y", "CONFIG_NFSD_V4_POSIX_ACLS=y", "CONFIG_CRYPTO_KRB5=y"},
		// The kernel enters its programs by seccomp where it can: twice as fast as by ptrace.
		boot:   []string{"seccomp=auto"},
		effort: "compiles Linux: some twelve minutes on two processors",
	},
}

// settings returns the configuration of the kernel: uml.config, and what the version and this
// machine's processor need.
func (s *userModeSource) settings() string {
	var b strings.Builder
	for line := range strings.Lines(userModeConfig) {
		option, _, _ := strings.Cut(line, "=")
		if !slices.Contains(s.without, strings.TrimPrefix(option, "CONFIG_")) {
			b.WriteString(line)
		}
	}
	for _, line := range s.with {
		b.WriteString(line + "\n")
	}
	if hasAMX() {
		b.WriteString(stacksWide)
	}
	return b.String()
}

func (s *userModeSource) artifact() artifact {
	return artifact{name: string(s.kernel), ingredients: []string{s.settings(), strings.Join(treeFolders, " ")}}
}

// override returns the path of a kernel that was built elsewhere, or "". It is for work on the lab
// itself.
func (s *userModeSource) override() string {
	if s.kernel == UserMode {
		return os.Getenv("NFSRDMAD_LAB_UML")
	}
	return ""
}

// program returns the path of the user-mode kernel, which is an ordinary program.
func (s *userModeSource) program() string {
	if program := s.override(); program != "" {
		return program
	}
	return filepath.Join(s.artifact().path(), "linux")
}

// KernelTree returns the path of a tarball with about thirteen thousand files of Linux's source, in
// which "make ARCH=um" works. It is created together with the user-mode kernel 6.12.
func KernelTree() string {
	s := UserMode.source()
	if s.override() != "" {
		return os.Getenv("NFSRDMAD_LAB_TREE")
	}
	return filepath.Join(s.artifact().path(), "tree.tar")
}

func (s *userModeSource) build() error {
	return s.artifact().make(func(folder string) error {
		work := filepath.Join(folder, "work")
		if err := os.Mkdir(work, 0o755); err != nil {
			return err
		}
		r := &recipe{folder: work}
		debian, err := suites(r, s.suites...)
		if err != nil {
			return err
		}
		tarball, err := debian.source(s.version)
		if err != nil {
			return err
		}
		if err := r.run("tar", "-xf", tarball); err != nil {
			return err
		}
		tree := filepath.Join(work, "linux-source-"+s.version)
		if s.kernel == UserMode {
			if err := packTree(r, tree, filepath.Join(folder, "tree.tar")); err != nil {
				return err
			}
		}
		if s.narrow {
			if err := makeRoomForRegisters(tree); err != nil {
				return err
			}
		}
		if err := compileUserMode(r, tree, s.settings(), filepath.Join(folder, "linux")); err != nil {
			return err
		}
		return os.RemoveAll(work)
	})
}

func compileUserMode(r *recipe, tree, settings, program string) error {
	config := filepath.Join(r.folder, "wanted.config")
	if err := os.WriteFile(config, []byte(settings), 0o644); err != nil {
		return err
	}
	output := filepath.Join(r.folder, "out")
	arguments := []string{"-s", "-C", tree, "ARCH=um", "O=" + output}
	r.env = []string{"KCONFIG_ALLCONFIG=" + config}
	if err := r.run("make", append(arguments, "allnoconfig")...); err != nil {
		return err
	}
	if err := checkConfig(settings, filepath.Join(output, ".config")); err != nil {
		return err
	}
	if err := r.run("make", append(arguments, fmt.Sprintf("-j%d", runtime.NumCPU()), "linux")...); err != nil {
		return err
	}
	return r.run("strip", "-o", program, filepath.Join(output, "linux"))
}

// checkConfig returns an error if kconfig has dropped a line of the settings. kconfig does that
// silently if a dependency of the line is missing.
func checkConfig(settings, path string) error {
	made, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var dropped []string
	for line := range strings.Lines(settings) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "CONFIG_") || strings.HasSuffix(line, "=n") {
			continue
		}
		if !strings.Contains("\n"+string(made), "\n"+line+"\n") {
			dropped = append(dropped, line)
		}
	}
	if len(dropped) > 0 {
		return fmt.Errorf("this source cannot have %s", strings.Join(dropped, ", "))
	}
	return nil
}

func packTree(r *recipe, tree, tarball string) error {
	var patterns []string
	for _, folder := range treeFolders {
		patterns = append(patterns, "-path", "./"+folder+"/*", "-o")
	}
	find := append([]string{tree, "-type", "f", "("}, patterns...)
	find = append(find, "-name", "Makefile*", "-o", "-name", "Kconfig*", "-o", "-name", "Kbuild*", ")", "-printf", "%P\\0")
	for i, word := range find {
		if strings.HasPrefix(word, "./") {
			find[i] = tree + word[1:]
		}
	}
	files, err := r.read("find", find...)
	if err != nil {
		return err
	}
	list := filepath.Join(r.folder, "tree.files")
	if err := os.WriteFile(list, files, 0o644); err != nil {
		return err
	}
	return r.run("tar", "-cf", tarball, "-C", tree, "--null", "-T", list)
}
