package krb5

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// says checks that the text of err contains each string in all.
func says(t *testing.T, what string, err error, all ...string) {
	t.Helper()
	for _, s := range all {
		if err == nil || !strings.Contains(err.Error(), s) {
			t.Errorf("%s: %v, which does not say %q", what, err, s)
		}
	}
}

// DefaultCache returns the name in KRB5CCNAME or, without it, the name in krb5.conf or, without
// that, /tmp/krb5cc_UID. If the kind of the cache is not supported, the error says the kind, where
// the name comes from, and the remedy.
func TestDefaultCache(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "krb5.conf")
	t.Setenv("KRB5_CONFIG", conf)
	usual := fmt.Sprintf("/tmp/krb5cc_%d", os.Getuid())
	for _, c := range []struct {
		environment, conf string
		want              string // "" if the cache is refused
		says              []string
	}{
		{"", "", usual, nil},
		{"/run/a", "", "/run/a", nil},
		{"/run/a:b", "", "/run/a:b", nil},
		{"FILE:/run/a", "KCM:", "FILE:/run/a", nil},
		{"DIR:/run/a", "", "DIR:/run/a", nil},
		{"DIR::/run/a/tkt1", "", "DIR::/run/a/tkt1", nil},
		{"KEYRING:persistent:0", "", "", []string{"KRB5CCNAME is KEYRING:persistent:0", "in the kernel's keyring", "kinit -c"}},
		{"KCM:", "", "", []string{"KRB5CCNAME is KCM:", "sssd-kcm", "kinit -c"}},
		{"MEMORY:x", "", "", []string{"KRB5CCNAME is MEMORY:x", "another process"}},
		{"ODD:x", "", "", []string{"of kind ODD"}},
		{"", "/run/a", "/run/a", nil},
		{"", `"FILE:/run/user/%{uid}/krb5cc"`, fmt.Sprintf("FILE:/run/user/%d/krb5cc", os.Getuid()), nil},
		{"", "DIR:%{TEMP}%{null}/%{USERID}", fmt.Sprintf("DIR:%s/%d", os.TempDir(), os.Getuid()), nil},
		{"", "KCM:", "", []string{"default_ccache_name of " + conf + " is KCM:", "kinit -c"}},
		{"", "KEYRING:persistent:%{uid}", "", []string{"default_ccache_name of " + conf, fmt.Sprintf("KEYRING:persistent:%d", os.Getuid())}},
		{"", "/run/%{LIBDIR}", "", []string{conf, "%{LIBDIR}", "KRB5CCNAME"}},
		{"", "/run/%{uid", "", []string{conf, "KRB5CCNAME"}},
	} {
		t.Setenv("KRB5CCNAME", c.environment)
		text := "[libdefaults]\n\tdefault_realm = EXAMPLE.ORG\n"
		if c.conf != "" {
			text += "# default_ccache_name = /wrong\n\tdefault_ccache_name=  " + c.conf + "\n default_ccache_name = /second\n"
		}
		write(t, conf, text+"[appdefaults]\n default_ccache_name = /elsewhere\n")
		got, err := DefaultCache()
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q and %q: %q, %v, want %q", c.environment, c.conf, got, err, c.want)
		}
		if c.want == "" {
			says(t, c.environment+c.conf, err, c.says...)
		}
	}
	t.Setenv("KRB5CCNAME", "")
	if err := os.Remove(conf); err != nil {
		t.Fatal(err)
	}
	if got, err := DefaultCache(); got != usual || err != nil {
		t.Errorf("without krb5.conf: %q, %v", got, err)
	}
}

// DefaultCache finds the name of the cache also in a file that krb5.conf includes, as in some
// distributions.
func TestDefaultCacheOfIncludedFiles(t *testing.T) {
	dir := t.TempDir()
	conf, more := filepath.Join(dir, "krb5.conf"), filepath.Join(dir, "conf.d")
	t.Setenv("KRB5_CONFIG", conf)
	t.Setenv("KRB5CCNAME", "")
	value := func(name string) string { return "[libdefaults]\n default_ccache_name = " + name + "\n" }
	write(t, conf, "includedir "+more+"\n[libdefaults]\n")
	write(t, filepath.Join(more, "b_cache-1"), value("/b"))
	write(t, filepath.Join(more, ".hidden.conf"), value("/hidden"))
	write(t, filepath.Join(more, "a.rpmsave"), value("/saved"))
	check := func(want string) {
		t.Helper()
		if got, err := DefaultCache(); got != want || err != nil {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	check("/b")
	write(t, filepath.Join(more, "a.b.conf"), value("/a"))
	check("/a")
	write(t, conf, "include "+filepath.Join(more, "b_cache-1")+"\n"+value("/own"))
	check("/b")
	// A file that includes itself is an error.
	write(t, conf, "include "+conf+"\n")
	_, err := DefaultCache()
	says(t, "a circle", err, conf, "too many")
	write(t, conf, "include "+filepath.Join(dir, "none")+"\n"+value("/own"))
	check("/own")
	write(t, conf, "includedir "+filepath.Join(dir, "none.d")+"\n"+value("/own"))
	check("/own")
	write(t, conf, "include "+dir+"\n")
	_, err = DefaultCache()
	says(t, "a directory in place of a file", err, conf)
}

// In a directory of caches, the file "primary" contains the name of the file to use.
func TestCachesInADirectory(t *testing.T) {
	dir := t.TempDir()
	primary := filepath.Join(dir, "primary")
	for _, c := range []struct{ primary, want string }{
		{"", "tkt"}, {"tkt\n", "tkt"}, {"tktAbCdEf\n", "tktAbCdEf"}, {"tktAbCdEf", "tktAbCdEf"},
	} {
		if c.primary != "" {
			write(t, primary, c.primary)
		}
		if got, err := cacheFile("DIR:" + dir); err != nil || got != filepath.Join(dir, c.want) {
			t.Errorf("%q: %s, %v", c.primary, got, err)
		}
	}
	for _, bad := range []string{"\n", "../tkt\n", "tkt/../../x\n", "other\n", "tkt\x00\n"} {
		write(t, primary, bad)
		_, err := cacheFile("DIR:" + dir)
		says(t, fmt.Sprintf("%q", bad), err, primary, "kinit")
	}
	if got, err := cacheFile("DIR::/run/tkt1"); err != nil || got != "/run/tkt1" {
		t.Errorf("%s, %v", got, err)
	}
	_, err := cacheFile("KCM:")
	says(t, "KCM", err, "KCM:")
	if err := os.Remove(primary); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(primary, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = cacheFile("DIR:" + dir)
	says(t, "primary is a directory", err, primary)
}
