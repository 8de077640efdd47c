package lab

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Setup installs the Debian packages and then sets up the parts named, each unless it is present.
// It writes a line to progress for each slow step. It must run as root if anything is missing.
func Setup(progress io.Writer, parts ...Part) error {
	if err := InstallPackages(progress); err != nil {
		return err
	}
	for _, part := range parts {
		if part.Ready() {
			continue
		}
		if os.Geteuid() != 0 {
			return fmt.Errorf("%s is not set up yet, and setting it up must be done as root", part)
		}
		begin := time.Now()
		fmt.Fprintf(progress, "lab: setting up %s (%s)\n", part, part.effort())
		if err := part.build(); err != nil {
			return fmt.Errorf("setting up %s: %w", part, err)
		}
		fmt.Fprintf(progress, "lab: %s is ready after %s\n", part, time.Since(begin).Round(time.Second))
	}
	return nil
}

// A recipe runs the commands of one set-up. It stores their output, so that the error of a failed
// command can show the end of it.
type recipe struct {
	folder string // the working folder of every command
	env    []string
	output bytes.Buffer
}

func (r *recipe) run(name string, args ...string) error {
	_, err := r.read(name, args...)
	return err
}

// read runs a command and returns its standard output.
func (r *recipe) read(name string, args ...string) ([]byte, error) {
	var stdout bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Dir = r.folder
	cmd.Env = append(append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive"), r.env...)
	cmd.Stdout = &stdout
	cmd.Stderr = &r.output
	err := cmd.Run()
	r.output.Write(stdout.Bytes())
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, lastLines(r.output.String(), 15))
	}
	return stdout.Bytes(), nil
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// one returns the path of the only file that matches the pattern, or an error unless exactly one
// file does.
func one(pattern string) (string, error) {
	found, err := filepath.Glob(pattern)
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("%d files match %s, not one", len(found), pattern)
	}
	if err != nil {
		return "", err
	}
	return found[0], nil
}
