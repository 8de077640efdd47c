//go:build interop

package krb5

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/test/krb5realm"
)

// If the credential cache is a directory, the tools act as the principal that kswitch chose, or
// as the principal of the cache that is named.
func TestToolsWithCachesInADirectory(t *testing.T) {
	s := newSite(t, krb5realm.ETypes[0])
	dir := filepath.Join(s.Dir, "caches")
	if err := errors.Join(s.AddUser("bob", password, s.etype), os.Mkdir(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	to := targets(t, s, "rw,insecure,sec=krb5p")["tcp"]
	t.Setenv("KRB5_CONFIG", s.conf)
	as := func(cache, want string) {
		t.Helper()
		t.Setenv("KRB5CCNAME", cache)
		to.Security = security(t, client.Kerberos{Flavor: client.Krb5p})
		c, err := client.Dial(within(t), to)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if x, _ := c.Secured(); x.Client != want {
			t.Errorf("%s: %s, want %s", cache, x.Client, want)
		}
	}
	all, bobs := "DIR:"+dir, "DIR::"+filepath.Join(dir, "tktbob")
	for cache, user := range map[string]string{all: "alice", bobs: "bob"} {
		if err := s.Login(user, password, cache, s.conf); err != nil {
			t.Fatal(err)
		}
	}
	as(all, "alice@KRB5.TEST")
	as(bobs, "bob@KRB5.TEST")
	t.Setenv("KRB5CCNAME", all)
	if out, err := exec.Command("kswitch", "-p", "bob@KRB5.TEST").CombinedOutput(); err != nil {
		t.Fatalf("kswitch: %v: %s", err, out)
	}
	as(all, "bob@KRB5.TEST")
}
