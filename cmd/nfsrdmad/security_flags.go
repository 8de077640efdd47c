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

// securityFlags are those of commands that may prove by Kerberos who they are.
type securityFlags struct {
	flavor, keytab, principal, server string
}

// securityHelp is about them.
const securityHelp = `The ticket comes from the credential cache (kinit), or
with --keytab from a key.`

func (s *securityFlags) add(f *pflag.FlagSet) {
	f.StringVar(&s.flavor, "sec", "sys", "how to prove who calls: sys, krb5, krb5i or krb5p")
	f.StringVar(&s.keytab, "keytab", "", "with Kerberos: a keytab (default: the credential cache of KRB5CCNAME or krb5.conf, or /tmp/krb5cc_UID)")
	f.StringVar(&s.principal, "principal", "", "with --keytab: whose key to use (default: the first)")
	f.StringVar(&s.server, "server-principal", "", "with Kerberos: the server's principal, such as nfs@server.example.org (default nfs@HOST)")
}

// security is what the flags ask for, nil for none.
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

// troubleEvery is how often a line is written of contexts that are not made.
const troubleEvery = 10 * time.Second

// trouble tells of contexts that a relay cannot make while it runs.
type trouble struct {
	mu   sync.Mutex
	last time.Time
}

// report writes a line where an error is about a context, unless there was one just now.
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
