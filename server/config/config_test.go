package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
)

func TestConfigErrorsNameFileLineAndRemedy(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name, text string
		line       int
		says       []string
	}{
		{"unknown key", "log_level = \"info\"\nloglevel = \"x\"\n", 2, []string{"unknown key \"loglevel\"", "did you mean \"log_level\""}},
		{"unknown key in a table", "[memory]\nceiling = \"64M\"\nroof = 1\n", 3, []string{"unknown key \"memory.roof\"", "[memory] are ceiling, connection"}},
		{"bad CIDR", "\n[[export]]\npath = \"" + dir + "\"\noptions = \"rw,clients=10.0.0.0/33\"\n", 4, []string{"10.0.0.0/33", "32 at most"}},
		{"host bits", "[[export]]\npath = \"" + dir + "\"\noptions = \"clients=10.0.0.1/8\"\n", 3, []string{"write 10.0.0.0/8"}},
		{"unknown option", "[[export]]\npath = \"" + dir + "\"\noptions = \"rw,no_subtree_check\"\n", 3, []string{"no_subtree_check", "leave the option out"}},
		{"bad address", "rdma = [\"eth0\"]\n", 1, []string{"eth0", "IP:PORT"}},
		{"options that contradict each other", "[[export]]\npath = \"/\"\noptions = \"rw,sync,ro\"\n", 3, []string{"options: ", "\"rw\" and \"ro\" contradict", "leave one"}},
		{"another fsid", "[[export]]\npath = \"/\"\noptions = \"fsid=7\"\n", 3, []string{"fsid=0"}},
		{"two squashes", "[[export]]\npath = \"/\"\noptions = \"root_squash,all_squash\"\n", 3, []string{"\"root_squash\" and \"all_squash\" contradict"}},
		{"no squash and all", "[[export]]\npath = \"/\"\noptions = \"all_squash,no_root_squash\"\n", 3, []string{"\"all_squash\" and \"no_root_squash\" contradict"}},
		{"sync and async", "[[export]]\npath = \"/\"\noptions = \"async,sync\"\n", 3, []string{"\"async\" and \"sync\" contradict"}},
		{"secure and insecure", "[[export]]\npath = \"/\"\noptions = \"secure,insecure\"\n", 3, []string{"\"secure\" and \"insecure\" contradict"}},
		{"an anonymous user that is none", "[[export]]\npath = \"/\"\noptions = \"anonuid=4294967295\"\n", 3, []string{"0 to 4294967294", "anonuid=65534"}},
		{"two anonymous users", "[[export]]\npath = \"/\"\noptions = \"anonuid=1,anonuid=2\"\n", 3, []string{"\"anonuid=1\" and \"anonuid=2\" contradict"}},
		{"clients twice", "[[export]]\npath = \"/\"\noptions = \"clients=10.0.0.0/8,clients=192.0.2.0/24\"\n", 3, []string{"write clients=10.0.0.0/8,192.0.2.0/24"}},
		{"clients by name, with a comma", "[[export]]\npath = \"/\"\noptions = \"clients=a,b\"\n", 3, []string{"clients=a", "CIDR", "separated by ','"}},
		{"bad size", "[memory]\nceiling = \"lots\"\n", 2, []string{"lots", "256M"}},
		{"size out of range", "[memory]\nceiling = \"1M\"\n", 2, []string{"ceiling = 1M", "from 16M to 1T"}},
		{"bad choice", "log_level = \"loud\"\n", 1, []string{"loud", "debug"}},
		{"duration without a unit", "drain_timeout = \"5\"\n", 1, []string{"drain_timeout: 5 has no unit", "write \"5s\""}},
		{"duration as a number", "\ndrain_timeout = 30\n", 2, []string{"drain_timeout: 30 has no unit", "write \"30s\""}},
		{"duration as a number, in a table", "[limits]\n\nstall_timeout = 30\n", 3, []string{"stall_timeout: 30 has no unit", "write \"30s\""}},
		{"duration as a number, with a dotted key", "limits.idle_timeout = 600\n", 1, []string{"idle_timeout: 600 has no unit", "write \"600s\""}},
		{"duration as a number, in an inline table", "limits = { stall_timeout = 1_000 }\n", 1, []string{"stall_timeout: ", "unit"}},
		{"duration as zero", "[limits]\nidle_timeout = 0\n", 2, []string{"idle_timeout: 0 has no unit", "write \"0s\""}},
		{"duration as a fraction", "drain_timeout = 1.5\n", 1, []string{"drain_timeout: 1.5 is not a duration", "\"30s\""}},
		{"no time to drain", "drain_timeout = \"0s\"\n", 1, []string{"drain_timeout = 0s", "from 100ms to 24h"}},
		{"nanoseconds", "[limits]\nstall_timeout = \"30ns\"\n", 2, []string{"stall_timeout = 30ns", "from 100ms to 24h"}},
		{"no stall", "[limits]\nstall_timeout = \"0s\"\n", 2, []string{"stall_timeout = 0s", "from 100ms to 24h"}},
		{"idle for too short", "[limits]\nidle_timeout = \"1ms\"\n", 2, []string{"idle_timeout = 1ms", "from 100ms to 24h"}},
		{"polls for too long", "busy_poll = \"2ms\"\n", 1, []string{"busy_poll = 2ms", "from 0s to 1ms"}},
		{"too long a drain", "drain_timeout = \"36h\"\n", 1, []string{"drain_timeout = 36h", "from 100ms to 24h"}},
		{"no connections", "[limits]\nconnections = 0\n", 2, []string{"connections = 0", "from 1 to 1048576"}},
		{"no credits", "[rnic]\ncredits = 0\n", 2, []string{"credits = 0", "from 1 to 4096"}},
		{"no memory", "[memory]\nceiling = 0\n", 2, []string{"ceiling = 0", "from 16M to 1T"}},
		{"more for one than for all", "[memory]\nceiling = \"64M\"\nconnection = \"65M\"\n", 3, []string{"connection = 65M", "from 4M to 64M"}},
		{"one address without a list", "rdma = \":20049\"\n", 1, []string{"rdma: \":20049\"", "a list", "write [\":20049\"]"}},
		{"a version without a list", "nfs.versions = \"4.1\"\n", 1, []string{"versions: \"4.1\"", "a list", "write [\"4.1\"]"}},
		{"a version without quotes", "[nfs]\nversions = [\"3\", 4.1]\n", 2, []string{"versions: 4.1", "\"4.1\""}},
		{"a version that is none", "[nfs]\nversions = [\"4\"]\n", 2, []string{"versions = \"4\"", "3, 4.0, 4.1, 4.2"}},
		{"no version", "[nfs]\nversions = []\n", 2, []string{"versions = no version at all", "\"3\""}},
		{"owners that are neither", "[nfs]\nowners = \"both\"\n", 2, []string{"owners", "numbers", "names"}},
		{"a domain that is none", "[nfs]\ndomain = \"a@b\"\n", 2, []string{"a@b", "example.org"}},
		{"a lease too short", "[nfs]\nlease_time = \"1s\"\n", 2, []string{"lease_time = 1s", "from 5s to 1h"}},
		{"a port alone", "tcp = 2049\n", 1, []string{"tcp: 2049", "write [\":2049\"]"}},
		{"a port in a list", "tcp = [2049]\n", 1, []string{"tcp: 2049", "write \":2049\""}},
		{"an address and none", "tcp = [\"none\", \":2049\"]\n", 1, []string{"tcp = \"none\" and \":2049\"", "either"}},
		{"a number in quotes", "[rnic]\ncredits = \"128\"\n", 2, []string{"credits: \"128\"", "without quotes: 128"}},
		{"a string without quotes", "[rnic]\nfpdu = 1400\n", 2, []string{"fpdu: 1400", "in quotes: \"1400\""}},
		{"a truth in quotes", "rpcbind = \"no\"\n", 1, []string{"rpcbind: \"no\"", "true or false"}},
		{"options as a list", "[[export]]\npath = \"/\"\noptions = [\"rw\", \"insecure\"]\n", 3, []string{"options: ", "write \"rw,insecure\""}},
		{"one export without a list", "[export]\npath = \"/\"\n", 1, []string{"write [[export]]"}},
		{"a list of one table", "[[memory]]\nceiling = \"64M\"\n", 1, []string{"write [memory]"}},
		{"a value for a table", "log_level = \"info\"\nmemory = \"64M\"\n", 2, []string{"memory is a table", "write [memory]"}},
		{"a table for a value", "[log_level]\n", 1, []string{"log_level is not a table"}},
		{"a key in other letters", "Log_Level = \"info\"\n", 1, []string{"did you mean \"log_level\""}},
		{"inside the second export", "[[export]]\npath = \"/\"\n[[export]]\npath = \"/usr\"\noptions = \"rw,foo\"\n", 5, []string{"options: ", "\"foo\""}},
		{"unknown key in an inline table", "export = [{ path = \"/\" }, { paht = \"/\" }]\n", 1, []string{"\"export.paht\""}},
		{"not TOML", "log_level = \n", 1, nil},
		{"bad metrics address", "metrics = \"localhost\"\n", 1, []string{"127.0.0.1:9427"}},
		{"odd inline threshold", "[rnic]\ninline = 1500\n", 2, []string{"1500", "a multiple of 1K"}},
		{"relative name", "[[export]]\npath = \"/\"\n[[export]]\npath = \"/usr\"\nname = \"usr\"\n", 5, []string{"write \"/usr\""}},
		{"one name twice", "[[export]]\npath = \"/usr\"\n[[export]]\npath = \"/\"\nname = \"/usr/\"\n", 5, []string{"\"/usr\"", "give one of them another"}},
		{"no path", "\n[[export]]\nname = \"/x\"\n", 2, []string{"no path", "path ="}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parseConfig("nfsrdmad.toml", []byte(c.text))
			var ce *Error
			if !errors.As(err, &ce) {
				t.Fatalf("error %v, want a *Error", err)
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

// V1-103: if the configuration names no address, the daemon serves TCP on port 2049 as well as RDMA
// on port 20049.
func TestDefaultListeners(t *testing.T) {
	c, err := parseConfig("f", []byte("[[export]]\npath = \""+t.TempDir()+"\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(c.TCP, c.RDMA); got != "[:2049] [:20049]" {
		t.Errorf("listen on %s", got)
	}
}

// A key has the value that the file sets, and otherwise its default. So do the options of exports.
func TestConfigDefaultsAndValues(t *testing.T) {
	dir := t.TempDir()
	c, err := parseConfig("f", []byte(`
rdma = ["192.0.2.1:20049", "[2001:db8::1]:20049"]
tcp = ["none"]
[limits]
idle_timeout = "0s"
[memory]
ceiling = "1GiB"
[rnic]
crc = "on"
[[export]]
path = "`+dir+`"
name = "/data/"
options = "ro,async,all_squash,anonuid=5,anongid=6,insecure,clients=10.0.0.0/8;2001:db8::/32;192.0.2.7,fsid=0,locks=none,utf8"
`))
	if err != nil {
		t.Fatal(err)
	}
	if c.Memory.Ceiling != 1<<30 || c.Memory.Connection != 1<<29 || c.RNIC.CRC != "on" || c.RNIC.Credits != 128 {
		t.Errorf("%+v %+v", c.Memory, c.RNIC)
	}
	if len(c.RDMA) != 2 || c.RDMA[1].String() != "[2001:db8::1]:20049" || !c.TCP[0].None {
		t.Errorf("listen on %v and %v", c.RDMA, c.TCP)
	}
	if name, err := c.Exports[0].ExportName(); name != "/data" || err != nil {
		t.Errorf("name %q, %v", name, err)
	}
	if e := exported(&c.Exports[0]); !e.ReadOnly || !e.Async || e.Secure || e.Squash != export.AllSquash || e.AnonUID != 5 || e.AnonGID != 6 || len(e.Clients) != 3 || !e.Root || !e.NoLocks || !e.UTF8 {
		t.Errorf("%+v", e)
	}
	if e := exported(new(Export)); e.ReadOnly || e.Async || !e.Secure || e.Squash != export.RootSquash || e.AnonUID != export.Nobody || e.AnonGID != export.Nobody || e.Clients != nil || e.Root || e.NoLocks || e.UTF8 {
		t.Errorf("without options: %+v", e)
	}
}

// exported returns an export with the options of a configuration.
func exported(c *Export) *export.Export {
	e := new(export.Export)
	c.Options.Apply(e)
	return e
}

func TestParseExportFlag(t *testing.T) {
	dir := t.TempDir()
	e, err := ParseExport(dir + ":/short,ro,clients=10.0.0.0/8;fd00::/8")
	if err != nil || e.Path.Path != dir || e.Name != "/short" || !exported(&e).ReadOnly || len(exported(&e).Clients) != 2 {
		t.Fatalf("%+v %v", e, err)
	}
	if e, err = ParseExport(dir); err != nil || e.Name != "" {
		t.Fatalf("%+v %v", e, err)
	}
	// Options that contradict each other are refused; the same option twice counts once.
	if e, err = ParseExport(dir + ",rw,ro"); err == nil {
		t.Errorf("rw,ro: %+v", e)
	}
	if e, err = ParseExport(dir + ",ro,ro,anonuid=5,anonuid=5"); err != nil || !exported(&e).ReadOnly {
		t.Errorf("ro,ro: %+v %v", e, err)
	}
	if _, err = ParseExport(dir + ",none"); err == nil || !strings.Contains(err.Error(), "--export") {
		t.Fatal(err)
	}
}

// The configuration accepts sizes and durations in the form in which error messages show them.
func TestValuesAreShownAsTheyAreRead(t *testing.T) {
	for text, want := range map[string]Size{
		"0": 0, "1": 1, "1023": 1023, "1K": 1024, "1025": 1025, "4K": 4096, "16M": 16 << 20, "1536M": 1536 << 20, "3G": 3 << 30, "1T": 1 << 40, "4096T": 4 << 50,
	} {
		var got Size
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want || got.String() != text {
			t.Errorf("%q is read as %d and shown as %q, %v", text, got, got, err)
		}
	}
	for _, text := range []string{"9223372036854775807K", "4611686018427387905", "4503599627370497K", "4194305T", "-1", "1X", "K", ""} {
		got := Size(7)
		if err := got.UnmarshalText([]byte(text)); err == nil || got != 7 {
			t.Errorf("%q is read as %d, %v", text, int64(got), err)
		}
	}
	for text, want := range map[string]time.Duration{
		"0s": 0, "100ms": 100 * time.Millisecond, "30s": 30 * time.Second, "1m": time.Minute, "1m30s": 90 * time.Second,
		"24h": 24 * time.Hour, "1h1m": 61 * time.Minute, "10h0m1s": 10*time.Hour + time.Second, "10m": 10 * time.Minute,
	} {
		var got Duration
		if err := got.UnmarshalText([]byte(text)); err != nil || got != Duration(want) || got.String() != text {
			t.Errorf("%q is read as %d and shown as %q, %v", text, int64(got), got, err)
		}
	}
}
