package krb5

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
)

// Config names the sources of a Mechanism's keys and tickets.
type Config struct {
	// Keytab is the path of the acceptor's keytab (default /etc/krb5.keytab).
	Keytab string
	// KeytabFailed, if not nil, is called if the keytab was read before, has changed, and cannot be
	// read now. The Mechanism then continues to use the previous keys. KeytabFailed is not called
	// if the file does not exist. After one call, it is not called again until the keytab was read
	// successfully. Any goroutine may call it.
	KeytabFailed func(error)
	// Service is the first component of the acceptor's principals (default nfs). The acceptor uses
	// all keys of such principals in the keytab, for any host.
	Service string
	// Skew is the largest allowed difference between the clocks of initiator and acceptor (default
	// five minutes).
	Skew time.Duration

	// Conf is the path of krb5.conf. The default is the first path in the environment variable
	// KRB5_CONFIG or, without it, /etc/krb5.conf.
	Conf string
	// Cache is the initiator's credential cache: FILE: and the path of a file, DIR: and the path of
	// a directory, or only the path of a file. If it is "", the initiator uses Keytab.
	Cache string
	// Principal is the initiator's principal, which must have a key in Keytab. The default is the
	// first principal of Service in Keytab.
	Principal string
	// OneSided is true if the initiator does not ask for mutual authentication. The acceptor then
	// does not authenticate itself, and the context has no subkey of the acceptor.
	OneSided bool
}

// A Mechanism is Kerberos version 5. It implements gss.Mechanism.
type Mechanism struct {
	config   Config
	keytab   keytabFile
	replayed replayed
	tickets  tickets
	asks     asks
}

var _ gss.Mechanism = (*Mechanism)(nil)

// New returns a Mechanism. It does not read files: call Check to see whether the keytab is usable.
func New(c Config) *Mechanism {
	c.Keytab = cmp.Or(c.Keytab, "/etc/krb5.keytab")
	c.Service = cmp.Or(c.Service, "nfs")
	c.Skew = cmp.Or(c.Skew, 5*time.Minute)
	c.Conf = confPath(c.Conf)
	return &Mechanism{config: c, keytab: keytabFile{path: c.Keytab, failed: c.KeytabFailed}}
}

// OID implements gss.Mechanism.
func (m *Mechanism) OID() []byte { return oid }

// Check reads the keytab. It returns an error if the Mechanism cannot accept contexts with it.
func (m *Mechanism) Check() error {
	_, err := m.serviceKeys()
	return err
}

// Exposed returns an error if users other than the keytab's owner and group can read it.
func (m *Mechanism) Exposed() error { return m.keytab.exposed() }

// serviceKeys returns the keys of Config.Service in the keytab. It returns an error if there are
// none.
func (m *Mechanism) serviceKeys() ([]serviceKey, error) {
	file, err := m.keytab.load()
	if err != nil {
		return nil, err
	}
	keys := ofService(file.keys, m.config.Service)
	if len(keys) == 0 {
		return nil, fmt.Errorf("the keytab %s has no key of AES for a principal %s/HOST: make one with kadmin's addprinc -randkey and ktadd", m.config.Keytab, m.config.Service)
	}
	return keys, nil
}

// seamError returns err if it is a *gss.Error. It wraps any other error in a *gss.Error with the
// status major and the code c.
func seamError(err error, major gss.Major, c code) error {
	var e *gss.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return failed(major, c, "%v", err)
}
