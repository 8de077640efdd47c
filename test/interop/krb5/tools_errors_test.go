//go:build interop

package krb5

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/client/bench"
	"github.com/nfsrdmad/nfsrdmad/client/probe"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/krb5realm"
	"github.com/nfsrdmad/nfsrdmad/test/testserver"
)

// If a setting is missing or wrong, the tools report the cause and the remedy.
func TestToolsNameCauseAndRemedy(t *testing.T) {
	s := newSite(t, krb5realm.ETypes[0])
	s.asAlice(t)
	ways := targets(t, s, "rw,insecure,sec=krb5p")
	dial := func(to client.Target, x *client.Security) error {
		to.Security = x
		c, err := client.Dial(within(t), to)
		if err == nil {
			c.Close()
		}
		return err
	}
	says := func(what string, err error, words ...string) {
		t.Helper()
		if err == nil {
			t.Errorf("%s: no error", what)
			return
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q does not say %q", what, err, w)
			}
		}
		t.Logf("%s: %v", what, err)
	}
	alice := client.Kerberos{Flavor: client.Krb5p}
	for name, to := range ways {
		says(name+", an unknown service", dial(to, security(t, client.Kerberos{Flavor: client.Krb5p, Server: "nfs@other.krb5.test"})), "nfs/other.krb5.test", "knows no such service")
		x := security(t, alice)
		x.Server = ""
		says(name+", an address", dial(to, x), "is an address", "principal")
		for _, f := range []client.Flavor{client.Sys, client.Krb5, client.Krb5i} {
			weak := to
			if f != client.Sys {
				weak.Security = security(t, client.Kerberos{Flavor: f})
			}
			for _, version := range []string{"3", "4.2"} {
				_, err := bench.Run(within(t), bench.Config{Target: weak, Export: "/data", NFS: version, Workload: "getattr", Ops: 1})
				says(fmt.Sprintf("%s, %s, a flavor that the export does not take", name, version), err, "sec="+f.String(), "probe")
			}
		}
	}
	plain := testserver.Start(t).Targets()["tcp"]
	says("a server without Kerberos", dial(plain, security(t, alice)), "does not know RPCSEC_GSS")
	if p := probe.Run(within(t), probe.Config{Host: plain.Host, Port: plain.Port, Transports: []client.Transport{client.TCP}, RoundTrips: 1}); p.Transports[0].GSS {
		t.Error("probe says that a server without Kerberos knows RPCSEC_GSS")
	}

	to := ways["tcp"]
	t.Setenv("KRB5CCNAME", filepath.Join(s.Dir, "none"))
	says("no cache", dial(to, security(t, alice)), filepath.Join(s.Dir, "none"), "kinit")
	t.Setenv("KRB5CCNAME", "KEYRING:persistent:0")
	_, err := alice.Security()
	says("a cache that is no file", err, "KEYRING", "kinit -c")
	_, err = client.Kerberos{Flavor: client.Krb5, Keytab: filepath.Join(s.Dir, "none")}.Security()
	says("no keytab", err, "keytab", "none")
	says("a principal that the keytab does not have", dial(to, security(t, client.Kerberos{Flavor: client.Krb5p, Keytab: s.machineKeytab, Principal: "nfs/x@KRB5.TEST"})), "nfs/x@KRB5.TEST")

	t.Setenv("KRB5CCNAME", s.cache)
	elsewhere := filepath.Join(s.Dir, "elsewhere.conf")
	conf, err := os.ReadFile(s.conf)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := os.WriteFile(elsewhere, bytes.ReplaceAll(conf, []byte(s.KDC()), []byte(l.Addr().String())), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KRB5_CONFIG", elsewhere)
	says("no KDC", dial(to, security(t, client.Kerberos{Flavor: client.Krb5p, Keytab: s.machineKeytab})), "no KDC is reached", elsewhere)
	t.Setenv("KRB5_CONFIG", s.conf)

	// From now on the KDC has keys that the keytabs do not have.
	for _, name := range []string{service, machine} {
		if err := s.ChangeKeys(name, s.etype); err != nil {
			t.Fatal(err)
		}
	}
	says("a server with an old key", dial(to, security(t, alice)), "keytab", "klist -ke")
	says("a client with an old key", dial(to, security(t, client.Kerberos{Flavor: client.Krb5p, Keytab: s.machineKeytab})), "keytab", "ktadd")
	p := probe.Run(within(t), probe.Config{Host: to.Host, Port: to.Port, Transports: []client.Transport{client.TCP}, RoundTrips: 1, Security: security(t, alice)})
	if l := p.Transports[0]; p.Serves(false) || !l.NFS || l.Context != nil || !strings.Contains(l.ContextFault, "klist -ke") {
		t.Errorf("probe finds %+v", l)
	}
}

// The tools report an expired ticket differently from a missing one.
func TestTicketThatHasEnded(t *testing.T) {
	r := krb5realm.New(t, krb5realm.Options{Lifetime: 2 * time.Second})
	cache := filepath.Join(r.Dir, "ccache")
	for _, err := range []error{r.AddUser("alice", password), r.AddService(service), r.Login("alice", password, cache, "")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("KRB5_CONFIG", r.Conf)
	t.Setenv("KRB5CCNAME", cache)
	to := testserver.Start(t).Targets()["tcp"]
	await.Until(t, "the ticket has ended", func() bool {
		to.Security = security(t, client.Kerberos{Flavor: client.Krb5})
		_, err := client.Dial(within(t), to)
		return err != nil && strings.Contains(err.Error(), "has no ticket of alice@KRB5.TEST that has not ended: use kinit")
	})
}
