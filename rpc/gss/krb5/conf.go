package krb5

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/jcmturner/gokrb5/v8/config"
)

// preferred lists the encryption types that the initiator asks for. The types of RFC 3962 come
// first, because servers that were written before RFC 8009 have only these two.
var preferred = []int32{int32(AES256SHA1), int32(AES128SHA1), int32(AES256SHA2), int32(AES128SHA2)}

// loadConf reads krb5.conf. If the file names no encryption types, it permits all of preferred,
// because the library's default list lacks those of RFC 8009.
func loadConf(path string) (*config.Config, error) {
	var c *config.Config
	err := guarded(func() (err error) {
		c, err = config.Load(path)
		return err
	})
	// If the error is an UnsupportedDirective, the library also returns a Config.
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

// chosen returns the allowed encryption types that a line of krb5.conf lists. The parameter names
// has the words of that line, ids has the types that the library has read from them, and among has
// all allowed types. If names equals unset, the library's default, the file has no such line, and
// chosen returns all allowed types.
func chosen(names, unset []string, ids, among []int32) []int32 {
	if slices.Equal(names, unset) {
		return slices.Clone(among)
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id int32) bool { return !slices.Contains(among, id) })
}

// findKDCs makes the library look up the realm's KDCs in the DNS if krb5.conf names none.
func findKDCs(c *config.Config, realm string) {
	named := slices.ContainsFunc(c.Realms, func(r config.Realm) bool { return r.Realm == realm && len(r.KDC) > 0 })
	if !named {
		c.LibDefaults.DNSLookupKDC = true
	}
}

// confPath returns the path of krb5.conf as Config.Conf describes it.
func confPath(path string) string {
	if path != "" {
		return path
	}
	first, _, _ := strings.Cut(os.Getenv("KRB5_CONFIG"), ":")
	return cmp.Or(first, "/etc/krb5.conf")
}

// DefaultRealm returns the default realm in the krb5.conf at path, or "" if it has none. An empty
// path means the same as in Config.Conf.
func DefaultRealm(path string) (string, error) {
	c, err := loadConf(confPath(path))
	if err != nil {
		return "", err
	}
	return c.LibDefaults.DefaultRealm, nil
}
