package client

import (
	"errors"
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/rpc/gss/krb5"
)

// typed is a context of Kerberos.
type typed interface{ EType() krb5.EType }

// Kerberos is where a client's credential for Kerberos is.
type Kerberos struct {
	// Flavor is Krb5, Krb5i or Krb5p.
	Flavor Flavor
	// Keytab is the path of a keytab, and Principal the one of it that the client is; "":
	// the first. Without Keytab, the credential is in the credential cache of the
	// environment, whose principal the client is.
	Keytab, Principal string
	// Server is the server's principal: Security.Server.
	Server string
}

// Security is what a Target takes. It reads the keytab, if there is one, but asks no KDC:
// that is for the first connection.
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
