//go:build kernel || bench

package kernel

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
	"github.com/nfsrdmad/nfsrdmad/test/krb5realm"
)

// The name of the lab's realm, the host names in it, and the port of its KDC.
const (
	realmName  = "KRB5.TEST"
	serverName = "server.krb5.test"
	clientName = "client.krb5.test"
	kdcPort    = 88
)

// realmUsers has the users that exist on the server and on the client, with their user ids. Each
// has a principal of the same name. carol has only a principal.
var realmUsers = map[string]int{"alice": 12001, "bob": 12002}

// A kerberized is a server in a Kerberos realm.
type kerberized struct {
	*server
	base   string // the folder of its files
	realm  *krb5realm.Realm
	keytab string // the daemon's
	config string // the daemon's configuration file
}

// machineIsRoot maps the client machine's principal to root at the server.
const machineIsRoot = "host/" + clientName + "@" + realmName + "=root"

// serveKerberos starts a KDC and a daemon in a network of their own. security is the value of
// sec= in the options of the export.
func serveKerberos(t testing.TB, security string, o krb5realm.Options) *kerberized {
	t.Helper()
	return serveKerberosTo(t, security, o, machineIsRoot)
}

// serveKerberosTo is serveKerberos with the given entries for the configuration key principals.
func serveKerberosTo(t testing.TB, security string, o krb5realm.Options, principals ...string) *kerberized {
	t.Helper()
	needsDaemon(t)
	k := inRealm(t, lab.NewNetwork(t), o)
	k.env = append(k.env, "EXPORT=/work")
	k.folder = filepath.Join(k.base, "export")
	if err := os.Mkdir(k.folder, 0o755); err != nil {
		t.Fatal(err)
	}
	k.configure(t, principals)
	k.start(t, k.folder+":/work,rw,no_root_squash,sec="+security)
	return k
}

// inRealm starts a KDC in a network and makes keytabs for a daemon and for a client there.
func inRealm(t testing.TB, n *lab.Network, o krb5realm.Options) *kerberized {
	t.Helper()
	base := t.TempDir()
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	o.Name, o.Dir, o.Address = realmName, filepath.Join(base, "kdc"), lab.Host
	realm, err := krb5realm.Make(o, kdcPort)
	if err != nil {
		t.Fatal(err)
	}
	k := &kerberized{base: base, realm: realm, keytab: filepath.Join(base, "server.keytab"), config: filepath.Join(base, "nfsrdmad.toml")}
	clientKeytab := filepath.Join(base, "client.keytab")
	k.addPrincipals(t, clientKeytab)
	lab.StartServer(t, n, "krb5kdc", realm.KDCCommand(), kdcPort)
	k.server = &server{t: t, network: n, env: []string{
		"SERVER_NAME=" + serverName, "CLIENT_NAME=" + clientName, "REALM_CONF=" + realm.Conf, "CLIENT_KEYTAB=" + clientKeytab,
	}}
	return k
}

// start starts the daemon with these exports.
func (k *kerberized) start(t testing.TB, exports ...string) {
	t.Helper()
	var args []string
	for _, e := range exports {
		args = append(args, "--export", e)
	}
	command := append([]string{"env", "KRB5_CONFIG=" + k.realm.Conf},
		lab.DaemonCommand(daemon(t), filepath.Join(k.base, "state"), append(args, "--config", k.config)...)...)
	k.daemon = lab.StartServer(t, k.network, "nfsrdmad", append(withUsers(t, k.base), command...), lab.PortRDMA, lab.PortTCP)
}

func (k *kerberized) addPrincipals(t testing.TB, clientKeytab string) {
	t.Helper()
	service, host := "nfs/"+serverName, "host/"+clientName
	for _, step := range []func() error{
		func() error { return k.realm.AddService(service) },
		func() error { return k.realm.Keytab(k.keytab, service) },
		func() error { return k.realm.AddService(host) },
		func() error { return k.realm.Keytab(clientKeytab, host) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	for _, user := range []string{"alice", "bob", "carol"} {
		if err := k.realm.AddUser(user, "secret"); err != nil {
			t.Fatal(err)
		}
	}
}

// addKernelServer adds the key of an NFS service to the keytab of the client's machine, so that a
// kernel server can run there.
func (k *kerberized) addKernelServer(t testing.TB) {
	t.Helper()
	service, keytab := "nfs/"+clientName, filepath.Join(k.base, "client.keytab")
	if err := k.realm.AddService(service); err != nil {
		t.Fatal(err)
	}
	if err := k.realm.Keytab(keytab, service); err != nil {
		t.Fatal(err)
	}
}

// configure writes the daemon's configuration file.
func (k *kerberized) configure(t testing.TB, principals []string) {
	t.Helper()
	named := ""
	if len(principals) > 0 {
		named = fmt.Sprintf("principals = [\"%s\"]\n", strings.Join(principals, `", "`))
	}
	text := fmt.Sprintf("log_level = \"debug\"\n[nfs]\nlease_time = \"10s\"\ngrace_time = \"20s\"\ndomain = \"krb5.test\"\n[kerberos]\nkeytab = %q\nrealm = %q\n%s",
		k.keytab, realmName, named)
	if err := os.WriteFile(k.config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// withUsers returns the beginning of a command. The program that follows it sees realmUsers in
// addition to the users of this machine.
func withUsers(t testing.TB, base string) []string {
	t.Helper()
	passwd, group := "root:x:0:0::/root:/bin/sh\n", "root:x:0:\nboth:x:12000:alice\n"
	for user, id := range realmUsers {
		passwd += fmt.Sprintf("%s:x:%d:%d::/:/bin/sh\n", user, id, id)
		group += fmt.Sprintf("%s:x:%d:\n", user, id)
	}
	for name, text := range map[string]string{"passwd": passwd, "group": group} {
		if err := os.WriteFile(filepath.Join(base, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"unshare", "-m", "sh", "-c",
		`mount --bind "$0/passwd" /etc/passwd && mount --bind "$0/group" /etc/group && exec "$@"`, base}
}

// overKerberos runs a test for every version, transport and flavor if the full matrix is
// requested, and otherwise for two combinations.
func overKerberos(t *testing.T, test func(t *testing.T, how, security string)) {
	overSome(t, test, "4.1 tcp krb5", "4.1 rdma krb5p")
}

// onceKerberos is overKerberos for tests whose result depends little on version, transport and
// flavor. Without the full matrix it runs one combination.
func onceKerberos(t *testing.T, test func(t *testing.T, how, security string)) {
	overSome(t, test, "4.1 rdma krb5p")
}

func overSome(t *testing.T, test func(t *testing.T, how, security string), some ...string) {
	t.Parallel()
	run := func(version, transport, security string) {
		t.Run(version+"/"+transport+"/"+security, func(t *testing.T) {
			t.Parallel()
			how := transport
			if version != "3" {
				how += "/" + version
			}
			test(t, how, security)
		})
	}
	if !everything() {
		for _, words := range some {
			w := strings.Fields(words)
			run(w[0], w[1], w[2])
		}
		return
	}
	for _, version := range append([]string{"3"}, versions...) {
		for _, transport := range transports {
			for _, security := range []string{"krb5", "krb5i", "krb5p"} {
				run(version, transport, security)
			}
		}
	}
}

// Over mounts that use Kerberos for every call, the client's machine and its users get their
// rights. The machine's principal is root at the server; two users with tickets have different
// rights.
func TestKerberos(t *testing.T) {
	overKerberos(t, func(t *testing.T, how, security string) {
		k := serveKerberos(t, security, krb5realm.Options{})
		k.run(lab.Options{Limit: 5 * time.Minute}, "krb5", how, security)
	})
}

// For each fault that an administrator can correct, the daemon refuses the calls and logs the
// cause and the remedy. When the fault is corrected, the same daemon serves the calls.
func TestKerberosRefusals(t *testing.T) {
	t.Parallel()
	k := serveKerberos(t, "krb5p", krb5realm.Options{})
	if err := k.realm.ChangeKeys("nfs/" + serverName); err != nil {
		t.Fatal(err)
	}
	g := k.boot(lab.Options{Limit: 5 * time.Minute}, "krb5_refused", "tcp/4.1")
	g.Await("old-keys")
	k.awaitLine("credential", "keytab")
	if err := k.realm.Keytab(k.keytab, "nfs/"+serverName); err != nil {
		t.Fatal(err)
	}
	g.Signal("new-keys")
	g.Await("skewed")
	k.daemon.AwaitLog(`"flavor": "sys", "sec": "krb5p", "remedy": "`)
	k.awaitLine("expired", "clocks")
	g.Await("unknown")
	k.awaitLine("unknown_principal", "carol@"+realmName)
	g.Succeed()
}

// awaitLine waits until the daemon's log has a line with this reason, this text and a remedy.
func (k *kerberized) awaitLine(reason, text string) {
	k.t.Helper()
	k.daemon.AwaitLog(`"reason": "` + reason + `"`)
	for line := range strings.Lines(k.daemon.Log()) {
		if strings.Contains(line, `"reason": "`+reason+`"`) && strings.Contains(line, text) && strings.Contains(line, `"remedy"`) {
			return
		}
	}
	k.t.Errorf("no line about %s names %q and a remedy", reason, text)
}

// If the daemon restarts while a user has a file open, the client creates new contexts, and the
// user's program sees no error.
func TestKerberosOverARestart(t *testing.T) {
	overKerberos(t, func(t *testing.T, how, security string) {
		k := serveKerberos(t, security, krb5realm.Options{})
		g := k.boot(lab.Options{Limit: 5 * time.Minute}, "krb5_restart", how, security)
		g.Await("begun")
		k.daemon.Kill()
		k.daemon.Start()
		g.Signal("go-on")
		g.Succeed()
	})
}

// A mount works for longer than the lifetime of tickets.
func TestKerberosTicketsEnd(t *testing.T) {
	onceKerberos(t, func(t *testing.T, how, security string) {
		k := serveKerberos(t, security, krb5realm.Options{Lifetime: 20 * time.Second})
		k.run(lab.Options{Limit: 5 * time.Minute}, "krb5_expiry", how, security)
	})
}

// The daemon calls back an NFSv4.0 client that uses Kerberos: it creates a context with the
// principal of the client's own machine, and calls as the service name that the client mounted.
func TestKerberosCallbacks(t *testing.T) {
	t.Parallel()
	for _, security := range []string{"krb5", "krb5p"} {
		t.Run(security, func(t *testing.T) {
			t.Parallel()
			k := serveKerberos(t, security, krb5realm.Options{})
			g := k.boot(lab.Options{Limit: 5 * time.Minute}, "krb5_callbacks", "tcp/4.0", security)
			g.Await("mounted")
			k.daemon.AwaitLog(`a client with Kerberos is called back	{"principal": "host/` + clientName + "@" + realmName + `", "as": "nfs/` + serverName + "@" + realmName + `"}`)
			g.Signal("called")
			g.Succeed()
		})
	}
}

// If the server has no user for the client's machine, it serves the machine as the anonymous
// user, and the users of that machine can still work.
func TestKerberosMachineIsAnonymous(t *testing.T) {
	onceKerberos(t, func(t *testing.T, how, security string) {
		k := serveKerberosTo(t, security, krb5realm.Options{})
		if err := os.Chmod(k.folder, 0o777|os.ModeSticky); err != nil {
			t.Fatal(err)
		}
		k.run(lab.Options{Limit: 5 * time.Minute}, "krb5_nobody", how, security)
	})
}

// An export with require_account refuses principals without an account, except that a machine
// without an account can mount.
func TestKerberosAccounts(t *testing.T) {
	overSome(t, func(t *testing.T, how, security string) {
		k := serveKerberosTo(t, security+",require_account", krb5realm.Options{})
		if err := os.Chmod(k.folder, 0o777|os.ModeSticky); err != nil {
			t.Fatal(err)
		}
		g := k.boot(lab.Options{Limit: 5 * time.Minute}, "krb5_account", how, security)
		g.Succeed()
		k.daemon.AwaitLog("principal without an account refused")
	}, "3 tcp krb5p", "4.1 rdma krb5p", "4.2 tcp krb5i")
}
