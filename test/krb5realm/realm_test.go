//go:build interop

package krb5realm_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/nfsrdmad/nfsrdmad/test/krb5realm"
)

func TestARealmHasUsersAndServices(t *testing.T) {
	r := krb5realm.New(t, krb5realm.Options{})
	const service = "nfs/server.krb5.test"
	for _, err := range []error{
		r.AddUser("alice", "secret"),
		r.AddService(service, krb5realm.ETypes[3]),
		r.Keytab(filepath.Join(r.Dir, "keytab"), service),
		r.ChangeKeys(service),
		r.Keytab(filepath.Join(r.Dir, "keytab"), service),
		r.Login("alice", "secret", filepath.Join(r.Dir, "ccache"), ""),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	kt, err := keytab.Load(filepath.Join(r.Dir, "keytab"))
	if err != nil || len(kt.Entries) != 5 {
		t.Errorf("the keytab has %d keys, %v", len(kt.Entries), err)
	}
	cache, err := credentials.LoadCCache(filepath.Join(r.Dir, "ccache"))
	if err != nil || cache.DefaultPrincipal.Realm != "KRB5.TEST" {
		t.Errorf("the cache is %v, %v", cache, err)
	}
	if err := r.Login("alice", "wrong", filepath.Join(r.Dir, "other"), ""); err == nil {
		t.Error("a wrong password will do")
	}
	if _, err := os.Stat(filepath.Join(r.Dir, "other")); err == nil {
		t.Error("a cache was made for it")
	}
}
