package main

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/nfsrdmad/nfsrdmad/client"
)

// securityFlags are the flags of commands that can authenticate by Kerberos.
type securityFlags struct {
	flavor, keytab, principal, server string
}

// securityHelp is the help text for the flags of securityFlags.
const securityHelp = `The ticket comes from the credential cache (kinit), or
with --keytab from a key.`

func (s *securityFlags) add(f *pflag.FlagSet) {
	f.StringVar(&s.flavor, "sec", "sys", "how to prove who calls: sys, krb5, krb5i or krb5p")
	f.StringVar(&s.keytab, "keytab", "", "with Kerberos: a keytab (default: the credential cache of KRB5CCNAME or krb5.conf, or /tmp/krb5cc_UID)")
	f.StringVar(&s.principal, "principal", "", "with --keytab: whose key to use (default: the first)")
	f.StringVar(&s.server, "server-principal", "", "with Kerberos: the server's principal, such as nfs@server.example.org (default nfs@HOST)")
}

// security returns the client.Security that the flags select, or nil for AUTH_SYS.
func (s *securityFlags) security() (*client.Security, error) {
	flavor, err := client.ParseFlavor(s.flavor)
	switch {
	case err != nil:
		return nil, usageError{fmt.Errorf("--sec: %w", err)}
	case flavor == client.Sys && (s.keytab != "" || s.principal != "" || s.server != ""):
		return nil, usageError{errors.New("--keytab, --principal and --server-principal belong to --sec krb5, krb5i or krb5p")}
	case flavor == client.Sys:
		return nil, nil
	case s.principal != "" && s.keytab == "":
		return nil, usageError{errors.New("--principal chooses a key of --keytab: a credential cache has one principal")}
	}
	return client.Kerberos{Flavor: flavor, Keytab: s.keytab, Principal: s.principal, Server: s.server}.Security()
}

// troubleEvery is the shortest time between two lines that trouble.report writes.
const troubleEvery = 10 * time.Second

// A trouble tells the user of a relay that the relay cannot make RPCSEC_GSS contexts with the
// server.
type trouble struct {
	mu   sync.Mutex
	last time.Time
}

// report writes a line if err says that no RPCSEC_GSS context was made, unless it wrote one in the
// last troubleEvery.
func (t *trouble) report(err error) {
	if !client.NoContext(err) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); now.Sub(t.last) >= troubleEvery {
		t.last = now
		fmt.Fprintln(os.Stderr, "clients are not served:", err)
	}
}
