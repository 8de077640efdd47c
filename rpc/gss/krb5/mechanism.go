package krb5

import (
	"errors"
	"fmt"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
)

// Config names the sources of a Mechanism's keys and tickets.
type Config struct {
	// Keytab is the path of the acceptor's keytab, /etc/krb5.keytab if it is "".
	Keytab string
	// KeytabFailed, if not nil, is called when the keytab has changed and cannot be read; the
	// previous keys stay in use. It is called once, by any goroutine, until the keytab can be read
	// again.
	KeytabFailed func(error)
	// Service is the first component of the acceptor's principals, nfs if it is "". Each key of
	// such a principal is used, for any host.
	Service string
	// Skew is the largest allowed difference of clocks. 0 means five minutes.
	Skew time.Duration

	// Conf is the path of krb5.conf. If it is "", it is the first path in KRB5_CONFIG of the
	// environment, or else /etc/krb5.conf.
	Conf string
	// Cache is the initiator's credential cache: the path of a file, with or without FILE:, or
	// DIR: and the path of a directory. If it is "", the initiator uses Keytab.
	Cache string
	// Principal is the initiator's principal, with keys in Keytab. If it is "", it is the first
	// principal of Service there.
	Principal string
	// OneSided makes the initiator ask for no mutual authentication. The context then has no
	// subkey of the acceptor.
	OneSided bool
	// Bindings is the application data of the initiator's channel bindings, or nil for none.
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

// New returns a Mechanism. It reads no files; Check does.
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

// OID implements gss.Mechanism.
func (m *Mechanism) OID() []byte { return oid }

// Check reads the keytab and returns the reason why it cannot accept contexts, or nil.
func (m *Mechanism) Check() error {
	_, err := m.serviceKeys()
	return err
}

// Exposed returns an error if users other than the keytab's owner and group can read it.
func (m *Mechanism) Exposed() error { return m.keytab.exposed() }

// serviceKeys returns the acceptor's keys.
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

// seamError turns any error into a *gss.Error.
func seamError(err error, major gss.Major, c code) error {
	var e *gss.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return failed(major, c, "%v", err)
}
