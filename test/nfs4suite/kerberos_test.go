//go:build interop

package nfs4suite

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/krb5realm"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
)

// The rules of TestPrincipals hold for a daemon that accepts both Kerberos and AUTH_SYS.
func TestDaemonTellsPrincipalsApart(t *testing.T) {
	r := krb5realm.New(t, krb5realm.Options{})
	const server = "nfs/server.krb5.test"
	theirs, users := filepath.Join(r.Dir, "server.keytab"), filepath.Join(r.Dir, "users.keytab")
	err := errors.Join(r.AddService(server), r.Keytab(theirs, server))
	for _, p := range withKerberos.all {
		if p.proven != "" {
			err = errors.Join(err, r.AddService(p.proven), r.Keytab(users, p.proven))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	d := nfs4test.StartDaemon(t, nfs4test.DaemonConfig{
		Program: program, Directory: exported(t), Options: ",sec=sys:krb5i",
		Kerberos: fmt.Sprintf("keytab = %q\nrealm = %q", theirs, r.Name),
	})
	d.Realm = realmOf(server+"@"+r.Name, r.Conf, users)
	principals(t, d.Site, withKerberos, may)
}
