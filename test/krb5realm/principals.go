package krb5realm

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// kadmin runs one query of kadmin.local.
func (r *Realm) kadmin(query ...string) error {
	return r.run("/usr/sbin/kadmin.local", append([]string{"-r", r.Name}, query...)...)
}

// keyTypes returns the arguments of kadmin.local that determine the encryption types of a
// principal's keys.
func keyTypes(etypes []string) []string {
	if len(etypes) == 0 {
		etypes = ETypes
	}
	return []string{"-e", salted(etypes)}
}

// AddUser adds a principal with a password and with keys of the given encryption types. If there
// are none, the keys have all types of ETypes.
func (r *Realm) AddUser(name, password string, etypes ...string) error {
	return r.kadmin(append(append([]string{"addprinc", "-pw", password}, keyTypes(etypes)...), name)...)
}

// AddService adds a principal with random keys, such as nfs/server.krb5.test. The keys have the
// given encryption types, or all types of ETypes if there are none.
func (r *Realm) AddService(name string, etypes ...string) error {
	return r.kadmin(append(append([]string{"addprinc", "-randkey"}, keyTypes(etypes)...), name)...)
}

// Keytab adds the present keys of principals to a keytab.
func (r *Realm) Keytab(path string, principals ...string) error {
	return r.kadmin(append([]string{"ktadd", "-k", path, "-norandkey"}, principals...)...)
}

// ChangeKeys gives a principal new random keys with the next version number. They have the given
// encryption types, or all types of ETypes if there are none.
func (r *Realm) ChangeKeys(name string, etypes ...string) error {
	return r.kadmin(append(append([]string{"cpw", "-randkey"}, keyTypes(etypes)...), name)...)
}

// Trust lets the users of each of two realms use the services of the other. From then on, the
// configuration of each realm also names the other.
func (r *Realm) Trust(other *Realm) error {
	for _, at := range []*Realm{r, other} {
		for _, grants := range []string{"krbtgt/" + r.Name + "@" + other.Name, "krbtgt/" + other.Name + "@" + r.Name} {
			if err := at.AddUser(grants, "the secret of two realms"); err != nil {
				return err
			}
		}
	}
	r.known, other.known = append(r.known, other), append(other.known, r)
	return errors.Join(r.writeConf(r.Conf, ETypes), other.writeConf(other.Conf, ETypes))
}

// Login gets a user's ticket by kinit and stores it in the credential cache at path: a file, or,
// after "DIR:", a directory. conf is the path of the krb5.conf; "" means Conf.
func (r *Realm) Login(user, password, path, conf string) error {
	if conf == "" {
		conf = r.Conf
	}
	cache := path
	if !strings.HasPrefix(path, "DIR:") {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		cache = "FILE:" + path
	}
	env := []string{"KRB5_CONFIG=" + conf}
	return r.runWith(env, password+"\n", "/usr/bin/kinit", "-c", cache, fmt.Sprintf("%s@%s", user, r.Name))
}
