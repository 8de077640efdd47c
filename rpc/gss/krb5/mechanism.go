package krb5

import (
	"errors"
	"fmt"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
)

// Config says where a Mechanism's keys and tickets come from.
type Config struct {
	// Keytab is the path of the acceptor's keytab, /etc/krb5.keytab if it is "".
	Keytab string
	// KeytabFailed, where set, is told when the keytab has changed and cannot be read any more:
	// the keys that were in it are used on. It is told once, until the keytab can be read
	// again, by any goroutine.
	KeytabFailed func(error)
	// Service is the first component of the acceptor's principals, nfs if it is "".
	// Each key of such a principal is used, whatever its host.
	Service string
	// Skew is how far clocks may be apart, five minutes if it is 0.
	Skew time.Duration

	// Conf is the path of krb5.conf. If it is "", that is the first of the environment's
	// KRB5_CONFIG, or else /etc/krb5.conf.
	Conf string
	// Cache is the credential cache that the initiator takes its tickets from: the path
	// of a file, with FILE: or without, or DIR: and the path of a directory. If it is "",
	// the initiator uses Keytab.
	Cache string
	// Principal is the initiator's, with keys in Keytab: the first of Service if it is "".
	Principal string
	// OneSided initiators do not ask the acceptor to prove itself. The context then
	// has no acceptor's subkey.
	OneSided bool
	// Bindings is the application data of channel bindings that the initiator
	// sends, nil for none.
	Bindings []byte
}

// A Mechanism is Kerberos version 5: gss.Mechanism.
type Mechanism struct {
	config   Config
	keytab   keytabFile
	replayed replayed
	tickets  tickets
	asks     asks
}

var _ gss.Mechanism = (*Mechanism)(nil)

// New makes a Mechanism. It reads no files: see Check.
func New(c Config) *Mechanism {
	defaults := []struct {
		field *string
		value string
	}{{&c.Keytab, "/etc/krb5.keytab"}, {&c.Service, "nfs"}}
	for _, d := range defaults {
		if *d.field == "" {
			*d.field = d.value
		}
	}
	c.Conf = confPath(c.Conf)
	if c.Skew == 0 {
		c.Skew = 5 * time.Minute
	}
	return &Mechanism{config: c, keytab: keytabFile{path: c.Keytab, failed: c.KeytabFailed}}
}

// OID is part of gss.Mechanism.
func (m *Mechanism) OID() []byte { return oid }

// Check reads the keytab and says what keeps it from accepting contexts.
func (m *Mechanism) Check() error {
	_, err := m.serviceKeys()
	return err
}

// Exposed says that users of this machine can read the keytab who should not.
func (m *Mechanism) Exposed() error { return m.keytab.exposed() }

// serviceKeys are the acceptor's keys.
func (m *Mechanism) serviceKeys() ([]serviceKey, error) {
	all, err := m.keytab.keys()
	if err != nil {
		return nil, err
	}
	keys := ofService(all, m.config.Service)
	if len(keys) == 0 {
		return nil, fmt.Errorf("the keytab %s has no key of AES for a principal %s/HOST: make one with kadmin's addprinc -randkey and ktadd", m.config.Keytab, m.config.Service)
	}
	return keys, nil
}

// seamError makes an *gss.Error of any error.
func seamError(err error, major gss.Major, c code) error {
	var e *gss.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return failed(major, c, "%v", err)
}
