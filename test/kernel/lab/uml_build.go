package lab

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

//go:embed uml.config
var userModeConfig string

// treeFolders are the folders of Linux's source that are stored with the kernel, for guests to
// unpack, to list and to compile in part. All Makefiles and Kconfig files are stored as well,
// because the build reads them.
var treeFolders = []string{"arch/um", "arch/x86/um", "arch/x86/include", "arch/x86/entry", "include", "init", "kernel", "lib", "scripts"}

func userModeArtifact() artifact {
	return artifact{name: "uml", ingredients: []string{userModeSettings(), strings.Join(treeFolders, " ")}}
}

// userModeOverride returns the path of a kernel that was built elsewhere, or "". It is for work
// on the lab itself.
func userModeOverride() string { return os.Getenv("NFSRDMAD_LAB_UML") }

// userModeKernel returns the path of the user-mode kernel, which is an ordinary program.
func userModeKernel() string {
	if program := userModeOverride(); program != "" {
		return program
	}
	return filepath.Join(userModeArtifact().path(), "linux")
}

// KernelTree returns the path of a tarball with about thirteen thousand files of Linux's source, in
// which "make ARCH=um" works. buildUserMode creates it together with the user-mode kernel.
func KernelTree() string {
	if userModeOverride() != "" {
		return os.Getenv("NFSRDMAD_LAB_TREE")
	}
	return filepath.Join(userModeArtifact().path(), "tree.tar")
}

func buildUserMode() error {
	return userModeArtifact().make(func(folder string) error {
		work := filepath.Join(folder, "work")
		if err := os.Mkdir(work, 0o755); err != nil {
			return err
		}
		r := &recipe{folder: work}
		debian, err := backports(r)
		if err != nil {
			return err
		}
		tarball, err := debian.source("6.12")
		if err != nil {
			return err
		}
		if err := r.run("tar", "-xf", tarball); err != nil {
			return err
		}
		tree := filepath.Join(work, "linux-source-6.12")
		if err := packTree(r, tree, filepath.Join(folder, "tree.tar")); err != nil {
			return err
		}
		if err := makeRoomForRegisters(tree); err != nil {
			return err
		}
		if err := compileUserMode(r, tree, filepath.Join(folder, "linux")); err != nil {
			return err
		}
		return os.RemoveAll(work)
	})
}

func compileUserMode(r *recipe, tree, program string) error {
	config := filepath.Join(r.folder, "wanted.config")
	if err := os.WriteFile(config, []byte(userModeSettings()), 0o644); err != nil {
		return err
	}
	output := filepath.Join(r.folder, "out")
	arguments := []string{"-s", "-C", tree, "ARCH=um", "O=" + output}
	r.env = []string{"KCONFIG_ALLCONFIG=" + config}
	if err := r.run("make", append(arguments, "allnoconfig")...); err != nil {
		return err
	}
	if err := checkConfig(filepath.Join(output, ".config")); err != nil {
		return err
	}
	if err := r.run("make", append(arguments, fmt.Sprintf("-j%d", runtime.NumCPU()), "linux")...); err != nil {
		return err
	}
	return r.run("strip", "-o", program, filepath.Join(output, "linux"))
}

// checkConfig returns an error if kconfig has dropped a line of uml.config. kconfig does that
// silently if a dependency of the line is missing.
func checkConfig(path string) error {
	made, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var dropped []string
	for line := range strings.Lines(userModeSettings()) {
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
