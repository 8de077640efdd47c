package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nfsrdmad/nfsrdmad/server/config"
)

// Each command that the help lists has a page with all its flags, and nfsrdmad.toml(5) has all keys and
// options. man reads the pages without a warning.
func TestManPages(t *testing.T) {
	dir := t.TempDir()
	root := rootCommand()
	root.SetArgs([]string{"manpages", dir})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	pages := make(map[string]string)
	names, _ := filepath.Glob(filepath.Join(dir, "man?", "*"))
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		base := filepath.Base(name)
		pages[strings.TrimSuffix(base, filepath.Ext(base))] = string(b)
		warnings(t, name)
	}
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
			return
		}
		title := strings.ReplaceAll(c.CommandPath(), " ", "-")
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if want := `\fB\-\-` + strings.ReplaceAll(f.Name, "-", `\-`) + `\fR`; c.HasParent() && !strings.Contains(pages[title], want) {
				t.Errorf("the page of %s lacks --%s", title, f.Name)
			}
		})
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	check(root)
	for _, d := range append(config.Keys(), config.Options()...) {
		name := d.Name[strings.LastIndex(d.Name, ".")+1:]
		if strings.Contains(d.Name, "=") {
			name = d.Name
		}
		if !strings.Contains(pages["nfsrdmad.toml"], `.TP`+"\n"+`\fB`+strings.ReplaceAll(name, "-", `\-`)+`\fR`) {
			t.Errorf("nfsrdmad.toml(5) lacks %s", d.Name)
		}
	}
	if strings.Contains(pages["nfsrdmad.toml"], `\(ga`) || strings.Contains(pages["nfsrdmad.toml"], "](") {
		t.Error("nfsrdmad.toml(5) shows Markdown")
	}
}

// warnings reports what man has to say of a page, where man is installed.
func warnings(t *testing.T, page string) {
	t.Helper()
	if _, err := exec.LookPath("man"); err != nil {
		return
	}
	c := exec.Command("man", "--warnings", "-l", page)
	c.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "MANPAGER=cat", "MANROFFSEQ=")
	var said strings.Builder
	c.Stderr = &said
	if err := c.Run(); err != nil || said.Len() > 0 {
		t.Errorf("man %s: %v\n%s", filepath.Base(page), err, said.String())
	}
}
