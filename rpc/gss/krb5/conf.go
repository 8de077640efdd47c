package krb5

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/keytab"
)

// preferred are the encryption types that the initiator asks for, the best known
// first, as servers that are older than RFC 8009 have the first two.
var preferred = []int32{int32(AES256SHA1), int32(AES128SHA1), int32(AES256SHA2), int32(AES128SHA2)}

// loadConf reads krb5.conf. Where the file does not speak of encryption types, all
// that are served may be used: the library's own list is without those of RFC 8009.
func loadConf(path string) (*config.Config, error) {
	var c *config.Config
	err := guarded(func() (err error) {
		c, err = config.Load(path)
		return err
	})
	// It comes beside a Config.
	if unsupported := (config.UnsupportedDirective{}); err != nil && !errors.As(err, &unsupported) {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	chooseETypes(&c.LibDefaults)
	return c, nil
}

func chooseETypes(l *config.LibDefaults) {
	unset := config.New().LibDefaults
	permitted := chosen(l.PermittedEnctypes, unset.PermittedEnctypes, l.PermittedEnctypeIDs, preferred)
	l.DefaultTGSEnctypeIDs = chosen(l.DefaultTGSEnctypes, unset.DefaultTGSEnctypes, l.DefaultTGSEnctypeIDs, permitted)
	l.DefaultTktEnctypeIDs = chosen(l.DefaultTktEnctypes, unset.DefaultTktEnctypes, l.DefaultTktEnctypeIDs, permitted)
	l.PermittedEnctypeIDs = permitted
}

// chosen are the types that a line of the file names, as far as they are among
// others; all of these where there is no such line.
func chosen(names, unset []string, ids, among []int32) []int32 {
	if slices.Equal(names, unset) {
		return slices.Clone(among)
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id int32) bool { return !slices.Contains(among, id) })
}

// findKDCs has the realm's KDCs looked up in the DNS where the file names none.
func findKDCs(c *config.Config, realm string) {
	named := slices.ContainsFunc(c.Realms, func(r config.Realm) bool { return r.Realm == realm && len(r.KDC) > 0 })
	if !named {
		c.LibDefaults.DNSLookupKDC = true
	}
}

// loadKeytab reads a keytab for the exchange with the KDC.
func loadKeytab(path string) (*keytab.Keytab, error) {
	var kt *keytab.Keytab
	err := guarded(func() (err error) {
		kt, err = keytab.Load(path)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the keytab %s: %w", path, err)
	}
	return kt, nil
}

// confPath is where krb5.conf is: see Config.Conf.
func confPath(path string) string {
	if path != "" {
		return path
	}
	first, _, _ := strings.Cut(os.Getenv("KRB5_CONFIG"), ":")
	return cmp.Or(first, "/etc/krb5.conf")
}

// DefaultRealm is the realm that the krb5.conf at path names as its own, "" if it
// names none. An empty path is as for Config.Conf.
func DefaultRealm(path string) (string, error) {
	c, err := loadConf(confPath(path))
	if err != nil {
		return "", err
	}
	return c.LibDefaults.DefaultRealm, nil
}
