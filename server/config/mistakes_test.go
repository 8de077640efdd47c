package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// A mistake is a configuration that a user may write by mistake. The error has the text remedy. A user who follows it
// writes fixed in place of wrong, which is a part of text.
type mistake struct {
	text   string // the file; @ stands for the exports that follow in most files
	line   int
	wrong  string
	remedy string
	fixed  string
}

// fileMistakes are mistakes in the file.
var fileMistakes = []mistake{
	// Keys.
	{"loglevel = \"info\"\n@", 1, "loglevel", `did you mean "log_level"`, "log_level"},
	{"Log_Level = \"info\"\n@", 1, "Log_Level", `did you mean "log_level"`, "log_level"},
	{"log-format = \"json\"\n@", 1, "log-format", `did you mean "log_format"`, "log_format"},
	{"metric = \"127.0.0.1:9427\"\n@", 1, "metric ", `did you mean "metrics"`, "metrics "},
	{"tpc = [\":2049\"]\n@", 1, "tpc", `did you mean "tcp"`, "tcp"},
	{"[limit]\nconnections = 5\n@", 1, "[limit]", `did you mean "limits"`, "[limits]"},
	{"[memroy]\nceiling = \"64M\"\n@", 1, "memroy", `did you mean "memory"`, "memory"},
	{"[nfs]\nlease = \"90s\"\n@", 2, "lease", `did you mean "lease_time"`, "lease_time"},
	{"[nfs]\nversion = [\"3\"]\n@", 2, "version", `did you mean "versions"`, "versions"},
	{"[kerberos]\nkey_tab = \"/k\"\n@", 2, "key_tab", `did you mean "keytab"`, "keytab"},
	{"[memory]\nceiling = \"64M\"\nlog_level = \"debug\"\n@", 3, "[memory]\nceiling = \"64M\"\nlog_level = \"debug\"", "above the first [table]", "log_level = \"debug\"\n[memory]\nceiling = \"64M\""},
	{"[memory]\nlease_time = \"60s\"\n@", 2, "[memory]", "belongs to [nfs]", "[nfs]"},
	{"ceiling = \"64M\"\n@", 1, "ceiling", "belongs to [memory]", "[memory]\nceiling"},
	{"[rnic]\nkeytab = \"/k\"\n@", 2, "[rnic]", "belongs to [kerberos]", "[kerberos]"},
	{"[[exports]]\npath = \"/usr\"\n", 1, "exports", `did you mean "export"`, "export"},
	{"[[export]]\npaht = \"/usr\"\n", 2, "paht", `did you mean "path"`, "path"},
	{"[[export]]\npath = \"/usr\"\noption = \"ro\"\n", 3, "option ", `did you mean "options"`, "options "},
	{"[[export]]\npath = \"/usr\"\nclients = [\"192.0.2.0/24\"]\n", 3, `clients = ["192.0.2.0/24"]`, `options = "clients=`, `options = "clients=192.0.2.0/24"`},
	{"[[export]]\npath = \"/usr\"\nclients = \"192.0.2.0/24\"\n", 3, `clients = "192.0.2.0/24"`, `options = "clients=192.0.2.0/24"`, `options = "clients=192.0.2.0/24"`},
	{"[[export]]\npath = \"/usr\"\nsec = \"krb5\"\n", 3, `sec = "krb5"`, `options = "sec=krb5"`, `options = "sec=krb5"`},
	{"[[export]]\npath = \"/usr\"\nro = true\n", 3, `ro = true`, `options = "ro"`, `options = "ro"`},
	{"[export]\npath = \"/usr\"\n", 1, "[export]", "write [[export]]", "[[export]]"},
	{"[[nfs]]\nlease_time = \"60s\"\n@", 1, "[[nfs]]", "write [nfs]", "[nfs]"},
	{"memory = \"64M\"\n@", 1, `memory = "64M"`, "write [memory] in a line of its own", "[memory]\nceiling = \"64M\""},
	{"[strict]\n@", 1, "[strict]", "write strict = true", "strict = true"},
	// Values.
	{"log_level = \"warning\"\n@", 1, "warning", `did you mean "warn"`, "warn"},
	{"log_level = \"INFO\"\n@", 1, "INFO", `did you mean "info"`, "info"},
	{"log_level = \"loud\"\n@", 1, "loud", "use one of info, debug, warn, error", "debug"},
	{"log_format = \"jsn\"\n@", 1, "jsn", `did you mean "json"`, "json"},
	{"log_level = 1\n@", 1, "1", "use one of info", `"info"`},
	{"[rnic]\ncrc = true\n@", 2, "true", "use one of peer, on, off", `"on"`},
	{"[rnic]\nfpdu = 100\n@", 2, "100", "a number of bytes from 128 to 64768", `"128"`},
	{"[rnic]\nfpdu = 1400\n@", 2, "1400", `write it in quotes: "1400"`, `"1400"`},
	{"[rnic]\nprovider = \"verb\"\n@", 2, "verb", `did you mean "verbs"`, "verbs"},
	{"[rnic]\ncredits = \"128\"\n@", 2, `"128"`, "write the number without quotes: 128", "128"},
	{"[rnic]\ncredits = 0\n@", 2, "credits = 0", "from 1 to 4096", "credits = 1"},
	{"[rnic]\ncredits = 99999999999999999999\n@", 2, "99999999999999999999", "too large", "128"},
	{"[rnic]\ninline = 1500\n@", 2, "1500", "a multiple of 1K", `"1K"`},
	{"metrics = 9427\n@", 1, "9427", "127.0.0.1:9427", `"127.0.0.1:9427"`},
	{"metrics = \"localhost\"\n@", 1, "localhost", "127.0.0.1:9427", "127.0.0.1:9427"},
	{"status_page = \"localhost:9428\"\n@", 1, "localhost:9428", "127.0.0.1:9428", "127.0.0.1:9428"},
	{"status_page = \"0.0.0.0:9428\"\n@", 1, "0.0.0.0:9428", "has no login", "127.0.0.1:9428"},
	{"status_page = \"192.0.2.1:9428\"\n@", 1, "192.0.2.1:9428\"\n", "status_page_open = true", "192.0.2.1:9428\"\nstatus_page_open = true\n"},
	{"rpcbind = \"no\"\n@", 1, `"no"`, "write true or false, without quotes", "false"},
	{"drain_timeout = 30\n@", 1, "30", `write "30s"`, `"30s"`},
	{"drain_timeout = \"5\"\n@", 1, `"5"`, `write "5s"`, `"5s"`},
	{"drain_timeout = \"36h\"\n@", 1, "36h", "from 100ms to 24h", "24h"},
	{"[nfs]\nlease_time = \"25h\"\n@", 2, "25h", "from 5s to 1h", "1h"},
	{"[memory]\nceiling = \"lots\"\n@", 2, "lots", "256M", "256M"},
	{"[memory]\nceiling = \"1M\"\n@", 2, "1M", "from 16M to 1T", "16M"},
	{"[memory]\nceiling = 256.5\n@", 2, "256.5", "such as 256M", `"256M"`},
	{"[nfs]\nversions = \"4.1\"\n@", 2, `"4.1"`, `write ["4.1"]`, `["4.1"]`},
	{"[nfs]\nversions = 4.1\n@", 2, `4.1`, `write ["4.1"]`, `["4.1"]`},
	{"[nfs]\nversions = [3]\n@", 2, `3`, `write "3"`, `"3"`},
	{"[nfs]\nversions = [\"4\"]\n@", 2, `"4"`, `use some of 3, 4.0, 4.1, 4.2`, `"4.0", "4.1", "4.2"`},
	{"rdma_versions = 2\n@", 1, "2", "write [1], or [1, 2]", "[1, 2]"},
	{"rdma_versions = 1\n@", 1, "1", "write [1]", "[1]"},
	{"rdma_versions = \"1\"\n@", 1, `"1"`, "write [1]", "[1]"},
	{"rdma_versions = [\"1\"]\n@", 1, `"1"`, "write 1", "1"},
	{"rdma_versions = [\"1\", 2]\n@", 1, `"1"`, "write 1", "1"},
	{"rdma_versions = [1.5]\n@", 1, "1.5", "write one such as 1", "1"},
	{"rdma_versions = [2]\n@", 1, "[2]", "write [1], or [1, 2]", "[1, 2]"},
	{"rdma_versions = [1, 3]\n@", 1, "3", "write [1], or [1, 2]", "2"},
	{"rdma_versions = []\n@", 1, "[]", "write [1], or [1, 2]", "[1]"},
	{"rdma_versions = [[1]]\n@", 1, "[[1]]", "write 1", "[1]"},
	{"rdma_version = [1]\n@", 1, "rdma_version ", `did you mean "rdma_versions"`, "rdma_versions "},
	{"[nfs]\ndomain = \"a@b\"\n@", 2, "a@b", `"example.org"`, "example.org"},
	{"tcp = \":2049\"\n@", 1, `":2049"`, `write [":2049"]`, `[":2049"]`},
	{"tcp = 2049\n@", 1, `2049`, `write [":2049"]`, `[":2049"]`},
	{"tcp = [\"eth0\"]\n@", 1, "eth0", "192.0.2.1:2049", "192.0.2.1:2049"},
	{"tcp = [\"localhost:2049\"]\n@", 1, "localhost:2049", "127.0.0.1:2049", "127.0.0.1:2049"},
	{"tcp = [\":99999\"]\n@", 1, "99999", "from 1 to 65535", "65535"},
	{"rdma = [\"none\", \":20049\"]\n@", 1, `"none", `, `either "none" or addresses`, ""},
	{"[kerberos]\naccount = \"joe\"\n@", 2, "joe", `"%u"`, "%u"},
	{"[kerberos]\nprincipals = [\"backup\"]\n@", 2, `"backup"`, `"backup/host@EXAMPLE.ORG=backup"`, `"backup/host@EXAMPLE.ORG=backup"`},
	// Text that is not TOML.
	{"log_level = info\n@", 1, "info", `write log_level = "info"`, `"info"`},
	{"log_level = “info”\n@", 1, "“info”", `write log_level = "info"`, `"info"`},
	{"log_level = \"info\n@", 1, `"info`, "a quote is missing", `"info"`},
	{"\ufefflog_level = \"info\"\n@", 1, "\ufeff", "byte order mark", ""},
	{"; comment\n@", 1, ";", "write # instead of ;", "#"},
	{";\n@", 1, ";", "write # instead of ;", "#"},
	{"// comment\n@", 1, "//", "write # instead of //", "#"},
	{"log_level: \"info\"\n@", 1, ":", `write log_level = "info"`, " ="},
	{"log_level = \"info\"\nlog_level = \"debug\"\n@", 2, "log_level = \"debug\"\n", "leave one of the two out", ""},
	{"[nfs]\nlease_time = \"60s\"\n[nfs]\ngrace_time = \"60s\"\n@", 3, "[nfs]\ngrace_time", "leave one of the two out", "grace_time"},
	{"rpcbind = yes\n@", 1, "yes", "write rpcbind = true", "true"},
	{"log_level =\n@", 1, "log_level =\n", "remove the line", ""},
	{"/srv *(rw)\n@", 1, "/srv *(rw)\n", "nfsrdmad exports convert", ""},
	// Exports and their options.
	{"[[export]]\nname = \"/x\"\n", 1, "name", `add path = `, "path = \"/usr\"\nname"},
	{"[[export]]\npath = \"/usr\"\nname = \"usr\"\n", 3, `"usr"`, `write "/usr"`, `"/usr"`},
	{"[[export]]\npath = \"/usr\"\nname = \"/da\\nta\"\n", 3, `/da\nta`, `"/data"`, "/data"},
	{"[[export]]\npath = \"~/srv\"\n", 2, "~/srv", "write the whole path", "/root/srv"},
	{"[[export]]\npath = \"/usr\"\n[[export]]\npath = \"/usr\"\nname = \"/usr\"\n", 5, `name = "/usr"`, "another, by the key name", `name = "/u"`},
	{"[[export]]\npath = \"/a\"\noptions = \"fsid=0\"\n[[export]]\npath = \"/b\"\noptions = \"fsid=0,ro\"\n", 6, "fsid=0,ro", "leave the option out of the other", "ro"},
	{"[[export]]\npath = \"/a\"\noptions = \"fsid=0\"\n[[export]]\npath = \"/b\"\nname = \"/a/b\"\n[[export]]\npath = \"/c\"\nname = \"/b\"\n", 7, `name = "/b"`, "another name", `name = "/c"`},
	option("=ro", "the options are", "ro"),
	option("sec=krb5@:", "after the '@', \":\" is not a network", "sec=krb5@192.0.2.0/24,sec=sys"),
	option("sec=krb5@", "after the '@', no network is given: write CIDR", "sec=krb5@192.0.2.0/24,sec=sys"),
	option("RW", `did you mean "rw"`, "rw"),
	option("read_only", "the options are ro rw", "ro"),
	option("no_rootsquash", `did you mean "no_root_squash"`, "no_root_squash"),
	option("client=192.0.2.0/24", `did you mean "clients=192.0.2.0/24"`, "clients=192.0.2.0/24"),
	option("nohide", "leave nohide out", ""),
	option("no_wdelay", "leave the option out", ""),
	option("no_all_squash", "leave the option out", ""),
	option("sec=sys,krb5", "sec=sys:krb5", "sec=sys:krb5"),
	option("sec=kerberos", "krb5", "sec=krb5"),
	option("sec", "write sec=", "sec=sys"),
	option("ro=true", "write ro", "ro"),
	option("ro,rw", "leave one of them out", "ro"),
	option("anonuid=-2", "anonuid=65534", "anonuid=65534"),
	option("fsid=7", "fsid=0", "fsid=0"),
	option("clients=*", "leave it out", ""),
	option("clients=192.0.2.0/255.255.255.0", "write 192.0.2.0/24", "clients=192.0.2.0/24"),
	option("clients=192.0.2.*", "write 192.0.2.0/24", "clients=192.0.2.0/24"),
	option("clients=10.0.0.0/33", "10.0.0.0/32", "clients=10.0.0.0/32"),
	option("clients=10.0.0.1/8", "write 10.0.0.0/8", "clients=10.0.0.0/8"),
	option("clients=192.168.077.0/24", "write 192.168.77.0/24", "clients=192.168.77.0/24"),
	option("clients=fe80::1%eth0", "write fe80::1", "clients=fe80::1"),
	option("clients=[2001:db8::]/32", "write 2001:db8::/32", "clients=2001:db8::/32"),
	option("clients=::ffff:192.0.2.0/120", "write 192.0.2.0/24", "clients=192.0.2.0/24"),
	option("clients=10.0.0.0/8,clients=192.0.2.0/24", "write clients=10.0.0.0/8,192.0.2.0/24", "clients=10.0.0.0/8,192.0.2.0/24"),
	option("clients=a.example.org", "host names are not looked up", "clients=192.0.2.1"),
	option("sec=krb5@192.0.2.0/24", "add sec=FLAVOR", "sec=krb5@192.0.2.0/24,sec=sys"),
}

// option returns a mistake in the options of an export.
func option(wrong, remedy, fixed string) mistake {
	return mistake{"[[export]]\npath = \"/usr\"\noptions = \"" + wrong + "\"\n", 3, "\"" + wrong + "\"", remedy, "\"" + fixed + "\""}
}

// told returns an error's text, and fails the test unless it is one line that names the place.
func told(t *testing.T, err error, file string, line int) string {
	t.Helper()
	at, ok := errors.AsType[*Error](err)
	switch {
	case !ok:
		t.Fatalf("error %v, want an *Error", err)
	case at.File != file || at.Line != line || strings.Contains(err.Error(), "\n"):
		t.Errorf("the error is to be one line about %s:%d:\n%v", file, line, err)
	}
	return err.Error()
}

// For each mistake there is one line with the place and the remedy. A user who does what it says has a
// right file.
func TestRemediesLeadToARightFile(t *testing.T) {
	if len(fileMistakes) < 60 {
		t.Errorf("only %d mistakes", len(fileMistakes))
	}
	for _, m := range fileMistakes {
		text := m.text
		if rest, exports := strings.CutSuffix(text, "@"); exports {
			text = rest + "[[export]]\npath = \"/usr\"\n"
		}
		_, err := parseConfig("f", []byte(text))
		if err == nil {
			t.Errorf("%q is accepted", text)
			continue
		}
		if out := told(t, err, "f", m.line); !strings.Contains(out, m.remedy) {
			t.Errorf("%q\n does not say %q\n but  %s", text, m.remedy, out)
		}
		at := strings.LastIndex(text, m.wrong)
		if at < 0 {
			t.Fatalf("%q has no %q", text, m.wrong)
		}
		mended := text[:at] + m.fixed + text[at+len(m.wrong):]
		if _, err := parseConfig("f", []byte(mended)); err != nil {
			t.Errorf("%q\n mended as %q is wrong: %v", text, mended, err)
		}
	}
}

// The same for flags.
func TestRemediesLeadToRightFlags(t *testing.T) {
	for _, m := range []struct{ wrong, place, remedy, fixed string }{
		{"--export=/srv/a:/data ro", "--export /srv/a:/data ro", "write /data,ro", "--export=/srv/a:/data,ro"},
		{"--export=/srv/a:/data:ro", "--export /srv/a:/data:ro", "write /data,ro", "--export=/srv/a:/data,ro"},
		{"--export=/srv/a:/data(ro,sync)", "--export /srv/a:/data(ro,sync)", "write /data,ro", "--export=/srv/a:/data,ro,sync"},
		{"--export=/srv/a ro", "--export /srv/a ro", "write /srv/a,ro", "--export=/srv/a,ro"},
		{"--export=/srv/a:ro", "--export /srv/a:ro", "write /srv/a,ro", "--export=/srv/a,ro"},
		{"--export=", "--export ", "DIR[:/name]", "--export=/srv/a"},
		{"--export=~/srv", "--export ~/srv", "write the whole path", "--export=/root/srv"},
		{"--export=/srv/a,b", "--export /srv/a,b", "the options are", "--export=/srv/a"},
		{"--export=/srv/a,RO", "--export /srv/a,RO", `did you mean "ro"`, "--export=/srv/a,ro"},
		{"--export=/srv/a:/x\ny", "--export /srv/a:/x\\ny", `such as "/xy"`, "--export=/srv/a:/xy"},
		{"--state-dir=", "--state-dir", "leave the flag out", "--state-dir=/var/lib/x"},
		{"--log-level=verbose", "--log-level", "use one of", "--log-level=debug"},
		{"--log-level=debg", "--log-level", `did you mean "debug"`, "--log-level=debug"},
		{"--tcp=2049", "--tcp", "write :2049", "--tcp=:2049"},
		{"--tcp=:nfs", "--tcp", ":2049", "--tcp=:2049"},
		{"--tcp=::1:2049", "--tcp", "write [::1]:2049", "--tcp=[::1]:2049"},
		{"--tcp=192.0.2.1", "--tcp", "write 192.0.2.1:2049", "--tcp=192.0.2.1:2049"},
		{"--tcp=192.0.2.1:2049,192.0.2.2:2049", "--tcp", "repeat the flag", "--tcp=192.0.2.1:2049"},
		{"--tcp=", "--tcp", "leave the flag out", "--tcp=:2049"},
		{"--rdma=eth0:20049", "--rdma", "IP:PORT", "--rdma=192.0.2.1:20049"},
		{"--rdma-versions=2", "--rdma-versions", "write [1], or [1, 2]", "--rdma-versions=1,2"},
		{"--rdma-versions=v2", "--rdma-versions", "write one such as 1", "--rdma-versions=1"},
		{"--rdma-versions=", "--rdma-versions", "leave the flag out", "--rdma-versions=1"},
		{"--rdma-versions=[1,2]", "--rdma-versions", "write one such as 1", "--rdma-versions=1,2"},
		{"--rdma-provider=siw", "--rdma-provider", "use one of", "--rdma-provider=iwarp"},
	} {
		read := func(words ...string) error {
			var f Flags
			set := pflag.NewFlagSet("serve", pflag.ContinueOnError)
			f.Define(set)
			if err := set.Parse(words); err != nil {
				t.Fatal(err)
			}
			_, err := ReadWith("", &f)
			return err
		}
		err := read(m.wrong)
		if err == nil {
			t.Errorf("%q is accepted", m.wrong)
			continue
		}
		if out := told(t, err, m.place, 0); !strings.Contains(out, m.remedy) {
			t.Errorf("%q\n does not say %q\n but  %s", m.wrong, m.remedy, out)
		}
		if err := read(m.fixed); err != nil {
			t.Errorf("%q: %v", m.fixed, err)
		}
	}
}

// All errors are reported at once, in the order of the lines, and none that only follows from another.
func TestAllErrorsAtOnce(t *testing.T) {
	const text = `log_level = "loud"
tcp = ["eth0"]
[memory]
ceiling = "1M"
state = 5.5
roof = "1G"
[[export]]
paht = "/usr"
[[export]]
path = "/usr"
options = "RO"
[nfs]
versions = ["5"]
`
	var f Flags
	set := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	f.Define(set)
	if err := set.Parse([]string{"--rdma=eth0"}); err != nil {
		t.Fatal(err)
	}
	_, err := parse("f", []byte(text), &f)
	if err == nil {
		t.Fatal("no error")
	}
	var places []string
	for line := range strings.Lines(err.Error()) {
		place, _, _ := strings.Cut(line, ": ")
		places = append(places, place)
	}
	if got := strings.Join(places, " "); got != "f:1 f:2 f:4 f:5 f:6 f:8 f:11 f:13 --rdma" {
		t.Errorf("%s\n%v", got, err)
	}
}
