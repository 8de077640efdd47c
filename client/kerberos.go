package client

import (
	"errors"
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/rpc/gss/krb5"
)

// Kerberos says where a client's Kerberos credential is, and how the credential protects calls.
type Kerberos struct {
	// Flavor is Krb5, Krb5i or Krb5p.
	Flavor Flavor
	// Keytab is the path of a keytab. Principal is the client's principal in it; "" means
	// the first. Without Keytab, the credential and the principal come from the
	// environment's credential cache.
	Keytab, Principal string
	// Server is the server's principal, as in Security.Server.
	Server string
}

// Security returns the Security for a Target. It reads the keytab, if there is one, but
// asks no KDC; the first connection does.
func (k Kerberos) Security() (*Security, error) {
	s := &Security{Service: k.Flavor.service(), Server: k.Server}
	if s.Service == 0 {
		return nil, fmt.Errorf("client: %v is no flavor of Kerberos", k.Flavor)
	}
	var cfg krb5.Config
	var err error
	switch {
	case k.Keytab != "":
		cfg.Keytab, cfg.Principal = k.Keytab, k.Principal
		if cfg.Principal == "" {
			cfg.Principal, err = krb5.FirstPrincipal(k.Keytab)
		}
	case k.Principal != "":
		err = errors.New("a principal can be chosen of a keytab: the credential cache has one of its own")
	default:
		cfg.Cache, err = krb5.DefaultCache()
	}
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	s.Mechanism = krb5.New(cfg)
	return s, nil
}
