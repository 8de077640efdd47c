package main

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/nfsrdmad/nfsrdmad/server/config"
)

// The output of convert is a configuration file. Its exports are those that 'serve --exports' serves from the same
// input.
func TestConvertedExportsAreAConfiguration(t *testing.T) {
	const text = "/srv/a 192.0.2.0/24(rw,no_subtree_check)\n\"/srv/b c\" *(ro,sec=krb5)\n/srv/d @group(rw)\n"
	var out, left strings.Builder
	all := config.ConvertExports(text, func(string) ([]netip.Addr, error) { return nil, nil })
	if n := printConverted(&out, &left, "/etc/exports", all); n != 2 || strings.Count(left.String(), "/etc/exports:3: ") != 2 {
		t.Errorf("%d lines are left out:\n%s", n, left.String())
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	c, err := config.Read(write("nfsrdmad.toml", out.String()))
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	var flags config.Flags
	set := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	flags.Define(set)
	read := func(text string) (*config.Config, error) {
		if err := set.Set("exports", write("exports", text)); err != nil {
			t.Fatal(err)
		}
		return config.ReadWith("", &flags)
	}
	kept, _, _ := strings.Cut(text, "/srv/d")
	served, err := read(kept)
	if err != nil || len(served.Exports) != 2 || len(served.Notes()) != 1 || served.Exports[0].Options.String() != c.Exports[0].Options.String() || served.Exports[1].Path != c.Exports[1].Path {
		t.Errorf("%+v, %v", served, err)
	}
	if _, err := read(text); err == nil || exitStatus(err) != 2 || !strings.Contains(err.Error(), "exports:3: @group is left out") {
		t.Errorf("an export that cannot be served as the file says: %v", err)
	}
	if len(c.Exports) != 2 || c.Exports[1].Path.Path != "/srv/b c" || c.Exports[0].Options.String() != "rw,sync,root_squash,secure,sec=sys,clients=192.0.2.0/24" {
		t.Errorf("%+v", c.Exports)
	}
}
