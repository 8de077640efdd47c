package server

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
)

func TestConfigErrorsNameFileLineAndRemedy(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "plain")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, text string
		line       int
		says       []string
	}{
		{"unknown key", "log_level = \"info\"\nloglevel = \"x\"\n", 2, []string{"unknown key \"loglevel\"", "did you mean \"log_level\""}},
		{"unknown key in a table", "[memory]\nceiling = \"64M\"\nroof = 1\n", 3, []string{"unknown key \"memory.roof\"", "remove it"}},
		{"bad CIDR", "\n[[export]]\npath = \"" + dir + "\"\noptions = \"rw,clients=10.0.0.0/33\"\n", 4, []string{"10.0.0.0/33", "CIDR"}},
		{"host bits", "[[export]]\npath = \"" + dir + "\"\noptions = \"clients=10.0.0.1/8\"\n", 3, []string{"write 10.0.0.0/8"}},
		{"no directory", "[[export]]\npath = \"" + dir + "/gone\"\n", 2, []string{"is not there", "mkdir -p"}},
		{"a file", "[[export]]\npath = \"" + file + "\"\n", 2, []string{"is not a directory"}},
		{"unknown option", "[[export]]\npath = \"" + dir + "\"\noptions = \"rw,no_subtree_check\"\n", 3, []string{"no_subtree_check", "all_squash"}},
		{"bad address", "rdma = [\"eth0\"]\n", 1, []string{"eth0", "IP:PORT"}},
		{"bad size", "[memory]\nceiling = \"lots\"\n", 2, []string{"lots", "256M"}},
		{"size out of range", "[memory]\nceiling = \"1M\"\n", 2, []string{"ceiling", "16777216"}},
		{"bad choice", "log_level = \"loud\"\n", 1, []string{"loud", "debug"}},
		{"bad duration", "drain_timeout = \"5\"\n", 1, []string{"30s"}},
		{"not TOML", "log_level = \n", 1, nil},
		{"bad metrics address", "metrics = \"localhost\"\n", 1, []string{"127.0.0.1:9427"}},
		{"odd inline threshold", "[rnic]\ninline = 1500\n", 2, []string{"1500", "a multiple of 1K"}},
		{"relative name", "[[export]]\npath = \"/\"\n[[export]]\npath = \"/usr\"\nname = \"usr\"\n", 3, []string{"write \"/usr\""}},
		{"one name twice", "[[export]]\npath = \"/usr\"\n[[export]]\npath = \"/\"\nname = \"/usr/\"\n", 3, []string{"\"/usr\"", "give one of them another"}},
		{"no path", "\n[[export]]\nname = \"/x\"\n", 2, []string{"no path", "path ="}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parseConfig("nfsrdmad.toml", []byte(c.text))
			var ce *ConfigError
			if !errors.As(err, &ce) {
				t.Fatalf("error %v, want a *ConfigError", err)
			}
			if ce.Line != c.line {
				t.Errorf("line %d, want %d: %v", ce.Line, c.line, err)
			}
			text := err.Error()
			if strings.Contains(text, "\n") {
				t.Errorf("more than one line: %q", text)
			}
			for _, s := range c.says {
				if !strings.Contains(text, s) {
					t.Errorf("%q does not say %q", text, s)
				}
			}
		})
	}
}

func TestConfigDefaultsAndValues(t *testing.T) {
	dir := t.TempDir()
	c, err := parseConfig("f", []byte(`
rdma = ["192.0.2.1:20049", "none"]
[memory]
ceiling = "1GiB"
[rnic]
crc = "on"
[[export]]
path = "`+dir+`"
name = "/data/"
options = "ro,async,all_squash,anonuid=5,anongid=6,insecure,clients=10.0.0.0/8;2001:db8::/32;192.0.2.7"
`))
	if err != nil {
		t.Fatal(err)
	}
	if c.Memory.Ceiling != 1<<30 || c.Memory.Connection != 1<<29 || c.RNIC.CRC != "on" || c.RNIC.Credits != 128 {
		t.Errorf("%+v %+v", c.Memory, c.RNIC)
	}
	if len(c.RDMA) != 2 || !c.RDMA[1].None || c.TCP[0].String() != ":2049" {
		t.Errorf("listen on %v and %v", c.RDMA, c.TCP)
	}
	e := c.Exports[0]
	if name, err := e.exportName(); name != "/data" || err != nil {
		t.Errorf("name %q, %v", name, err)
	}
	o := e.Options
	if !o.ReadOnly || !o.Async || !o.Insecure || o.Squash != export.AllSquash || *o.AnonUID != 5 || *o.AnonGID != 6 || len(o.Clients) != 3 {
		t.Errorf("%+v", o)
	}
}

func TestParseExportFlag(t *testing.T) {
	dir := t.TempDir()
	e, err := ParseExport(dir + ":/short,ro,clients=10.0.0.0/8;fd00::/8")
	if err != nil || e.Path.Path != dir || e.Name != "/short" || !e.Options.ReadOnly || len(e.Options.Clients) != 2 {
		t.Fatalf("%+v %v", e, err)
	}
	if e, err = ParseExport(dir); err != nil || e.Name != "" {
		t.Fatalf("%+v %v", e, err)
	}
	if _, err = ParseExport(dir + "/none,rw"); err == nil || !strings.Contains(err.Error(), "--export") {
		t.Fatal(err)
	}
}
