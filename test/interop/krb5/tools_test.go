//go:build interop

package krb5

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/client/bench"
	"github.com/nfsrdmad/nfsrdmad/client/probe"
	"github.com/nfsrdmad/nfsrdmad/client/relay"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/krb5realm"
	"github.com/nfsrdmad/nfsrdmad/test/testserver"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

var flavors = []client.Flavor{client.Krb5, client.Krb5i, client.Krb5p}

// asAlice has our tools find alice's ticket as they do by themselves.
func (s *site) asAlice(t *testing.T) {
	t.Setenv("KRB5_CONFIG", s.conf)
	t.Setenv("KRB5CCNAME", "FILE:"+s.cache)
}

// security is what --sec and --server-principal ask for.
func security(t *testing.T, k client.Kerberos) *client.Security {
	t.Helper()
	if k.Server == "" {
		k.Server = target
	}
	s, err := k.Security()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// within bounds what must happen.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func at(transport client.Transport, a netip.AddrPort) client.Target {
	return client.Target{Transport: transport, Host: a.Addr().String(), Port: int(a.Port()), Cred: client.Self()}
}

// targets are the ways to a daemon with one export /data of these options.
func targets(t *testing.T, s *site, options string) map[string]client.Target {
	t.Helper()
	overTCP, overRDMA := serveBoth(t, s, options)
	return map[string]client.Target{"tcp": at(client.TCP, overTCP), "rdma": at(client.RDMA, overRDMA)}
}

// probe tells what the server takes, and makes a context with each service.
func TestProbeUnderKerberos(t *testing.T) {
	s := newSite(t, krb5realm.ETypes[0])
	s.asAlice(t)
	for name, to := range targets(t, s, "rw,insecure,sec=krb5p:krb5i:krb5") {
		for _, f := range flavors {
			p := probe.Run(within(t), probe.Config{
				Host: to.Host, Port: to.Port, Transports: []client.Transport{to.Transport}, RoundTrips: 1, Timeout: time.Minute,
				Security: security(t, client.Kerberos{Flavor: f}),
			})
			l := p.Transports[0]
			if !p.Serves(true) || !l.GSS || l.Context == nil {
				t.Fatalf("%s, %v: %+v", name, f, l)
			}
			x := l.Context
			if x.Flavor != f || x.Server != acceptorName || x.Client != "alice@KRB5.TEST" || x.EType != s.etype || time.Until(x.Expiry) < time.Hour || x.Made <= 0 {
				t.Errorf("%s, %v: %+v", name, f, x)
			}
			want := []client.Flavor{client.Krb5p, client.Krb5i, client.Krb5}
			if len(p.Exports) != 1 || !slices.Equal(p.Exports[0].Flavors, want) {
				t.Errorf("%s, %v: exports %+v", name, f, p.Exports)
			}
			if l.NFS4 == nil || !slices.Contains(l.NFS4.Flavors, f) {
				t.Errorf("%s, %v: %+v, %q", name, f, l.NFS4, l.Notes)
			}
			var text bytes.Buffer
			p.Print(&text)
			for _, word := range []string{"sec=krb5p:krb5i:krb5", f.String() + " with " + acceptorName + " as alice@KRB5.TEST, " + s.etype, "RPCSEC_GSS"} {
				if !strings.Contains(text.String(), word) {
					t.Errorf("%s, %v: printed without %q:\n%s", name, f, word, &text)
				}
			}
		}
	}
}

// bench measures under each service, over both transports, by each version.
func TestBenchUnderKerberos(t *testing.T) {
	s := newSite(t, krb5realm.ETypes[0])
	s.asAlice(t)
	keytab := security(t, client.Kerberos{Flavor: client.Krb5p, Keytab: s.machineKeytab})
	for name, to := range targets(t, s, "rw,insecure,sec=krb5:krb5i:krb5p") {
		for _, version := range []string{"3", "4.1", "4.2"} {
			for _, f := range flavors {
				t.Run(fmt.Sprintf("%s/%s/%v", name, version, f), func(t *testing.T) {
					to.Security = security(t, client.Kerberos{Flavor: f})
					for _, work := range []string{"read", "write", "create"} {
						m, err := bench.Run(within(t), bench.Config{
							Target: to, Export: "/data", NFS: version, Workload: work, Size: 100_000, FileSize: 400_000, Depth: 4, Connections: 2, Ops: 24,
						})
						if err != nil || m.Operations != 24 || m.Security != f {
							t.Errorf("%s: %+v, %v", work, m, err)
						}
					}
				})
			}
		}
		// The client's machine, by its keytab.
		to.Security = keytab
		if _, err := bench.Run(within(t), bench.Config{Target: to, Export: "/data", Workload: "getattr", Ops: 8}); err != nil {
			t.Errorf("%s, by a keytab: %v", name, err)
		}
	}
}

// A session under Kerberos is called back: a lock that it was denied may be had now (RFC 8881
// §20.11).
func TestCallbackUnderKerberos(t *testing.T) {
	s := newSite(t, krb5realm.ETypes[0])
	s.asAlice(t)
	for name, to := range targets(t, s, "rw,insecure,sec=krb5:krb5i:krb5p") {
		for _, f := range flavors {
			t.Run(fmt.Sprintf("%s/%v", name, f), func(t *testing.T) {
				to.Security = security(t, client.Kerberos{Flavor: f})
				notified := make(chan client.Handle, 4)
				ctx := within(t)
				open := func(who string) (client.NFS4, client.Opened4) {
					x, err := client.DialSession(ctx, client.SessionConfig{Target: to, Callbacks: client.Callbacks{
						NotifyLock: func(file client.Handle, _ []byte) { notified <- file },
					}})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = x.Close() })
					n := client.NFS4{Session: x, Patient: true}
					dir, err := n.Walk(ctx, nil, "/data")
					if err != nil {
						t.Fatal(err)
					}
					o, err := n.Open(ctx, client.Open4{
						Dir: dir, Name: name + f.String(), Owner: []byte(who), Access: wire.Open4ShareAccessBoth | wire.Open4ShareAccessWantNoDeleg,
						Create: &wire.Createhow4{Mode: wire.Unchecked4, Createattrs: client.ModeAttribute(0o600)},
					})
					if err != nil {
						t.Fatal(err)
					}
					return n, o
				}
				holder, his := open("holder")
				all := client.Range4{Length: wire.NFS4Maxfilelen}
				lock, err := holder.Lock(ctx, his.File, his.StateID, []byte("holder"), wire.WriteLt, all)
				if err != nil {
					t.Fatal(err)
				}
				waiter, its := open("waiter")
				var denied *client.DeniedError
				if _, err := waiter.Lock(ctx, its.File, its.StateID, []byte("waiter"), wire.WritewLt, all); !errors.As(err, &denied) {
					t.Fatalf("a lock that another has: %v", err)
				}
				if _, err := holder.Unlock(ctx, his.File, lock, wire.WriteLt, all); err != nil {
					t.Fatal(err)
				}
				if file := await.Receive(t, "CB_NOTIFY_LOCK", notified); !bytes.Equal(file, its.File) {
					t.Error("it is about another file")
				}
				if flags := waiter.Session.Status(); flags != 0 {
					t.Errorf("SEQUENCE says %#x", flags)
				}
			})
		}
	}
}

// What is missing or does not fit is said with its cause and its remedy.
func TestToolsSayWhatIsWrong(t *testing.T) {
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

	// The KDC has other keys than the keytabs from now on.
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

// A ticket that has ended is told from one that there is not.
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

// A relay protects the way to the server: all that come from privileged ports act as its
// principal.
func TestRelayUnderKerberos(t *testing.T) {
	s := newSite(t, krb5realm.ETypes[0])
	s.asAlice(t)
	to := targets(t, s, "rw,sec=krb5p")["rdma"]
	for _, f := range flavors {
		t.Run(f.String(), func(t *testing.T) {
			to.Security = security(t, client.Kerberos{Flavor: f})
			through := startRelay(t, relay.Config{Target: to, Insecure: true})
			ctx := within(t)
			through.Cred = client.Identity(4711, 4711) // which does not count
			c, err := client.Dial(ctx, through)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			root, taken, err := c.Mount3().Mount(ctx, "/data")
			if err != nil || !slices.Equal(taken, []rpc.Flavor{rpc.AuthSys}) {
				t.Fatalf("MNT: flavors %v, %v", taken, err)
			}
			n := c.NFS3()
			file, _, err := n.Create(ctx, root, f.String(), nfs3wire.CreateHow3{ObjAttributes: nfs3wire.Sattr3{Mode: nfs3wire.SetMode3{SetIt: true, Mode: 0o600}}})
			if f != client.Krb5p {
				if !tooWeak(err) {
					t.Errorf("CREATE under %v: %v", f, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if a, err := n.Getattr(ctx, file); err != nil || a.UID != 1 {
				t.Errorf("the file belongs to %d, %v", a.UID, err)
			}
			want := bytes.Repeat([]byte("protected "), 100_000)
			if _, err := n.Write(ctx, file, 0, want, nfs3wire.FileSync); err != nil {
				t.Error(err)
			}
			got := make([]byte, len(want))
			if _, _, err := n.Read(ctx, file, 0, got); err != nil || !bytes.Equal(got, want) {
				t.Errorf("READ: %v, or other data", err)
			}
			x, err := client.DialSession(ctx, client.SessionConfig{Target: through})
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			found, err := client.NFS4{Session: x, Patient: true}.Walk(ctx, nil, "/data/"+f.String())
			if err != nil {
				t.Error(err)
			} else if _, _, err := x.NFS4().Read(ctx, found, wire.StateID4{}, 0, got); err != nil || !bytes.Equal(got[:9], want[:9]) {
				t.Errorf("READ by NFSv4: %v, or other data", err)
			}
		})
	}
}

// A port that any user of a machine can have is not lent the relay's principal, unless that is
// wanted.
func TestRelayOfAnyPort(t *testing.T) {
	s := newSite(t, krb5realm.ETypes[0])
	s.asAlice(t)
	to := targets(t, s, "rw,sec=krb5p")["rdma"]
	to.Security = security(t, client.Kerberos{Flavor: client.Krb5p})
	for _, c := range []struct {
		from     int
		insecure bool
		refused  bool
	}{{0, false, true}, {0, true, false}, {1000, false, false}} {
		through := startRelay(t, relay.Config{Target: to, Insecure: c.insecure})
		ctx := within(t)
		k, err := tcp.Dial(ctx, through.Address(), tcp.DialConfig{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			// Of an address that no other test uses, whose ports are free.
			return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 77, byte(os.Getpid()>>8), byte(os.Getpid()|1)), Port: c.from}}).DialContext(ctx, network, address)
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		root, _, err := client.Mount3{Caller: k, Cred: client.Self()}.Mount(ctx, "/data")
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.NFS3{Caller: k, Cred: client.Self()}.Fsinfo(ctx, root)
		if !c.refused && err != nil || c.refused && !tooWeak(err) {
			t.Errorf("from port %d, insecure %v: FSINFO: %v", c.from, c.insecure, err)
		}
	}
}

// A relay whose ticket is gone says so when it starts, and a client's connection ends with it.
func TestRelayWithoutTicket(t *testing.T) {
	s := newSite(t, krb5realm.ETypes[0])
	s.asAlice(t)
	to := targets(t, s, "rw,sec=krb5p")["rdma"]
	to.Security = security(t, client.Kerberos{Flavor: client.Krb5p})
	events := make(chan relay.Event, 16)
	through := startRelay(t, relay.Config{Target: to, Insecure: true, Event: func(e relay.Event) {
		select {
		case events <- e:
		default:
		}
	}})
	if err := s.ChangeKeys(service, s.etype); err != nil {
		t.Fatal(err)
	}
	if err := s.Login("alice", password, s.cache, s.conf); err != nil {
		t.Fatal(err)
	}
	if err := s.Keytab(s.keytab+".new", service); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(s.keytab+".new", s.keytab); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(s.cache); err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial(within(t), through)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Null(within(t), nfs3wire.Program, nfs3wire.Version); err == nil {
		t.Error("a call was answered")
	}
	e := await.Receive(t, "the end of the client's connection", events)
	var why *client.SecurityError
	if !errors.As(e.Err, &why) {
		t.Errorf("the connection ended with %v", e.Err)
	}
	other, err := relay.New(relay.Config{Target: to})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Check(within(t)); !errors.As(err, &why) || !strings.Contains(err.Error(), "kinit") {
		t.Errorf("a relay starts: %v", err)
	}
}

// The commands do the same by their flags.
func TestCommandsUnderKerberos(t *testing.T) {
	s := newSite(t, krb5realm.ETypes[0])
	s.asAlice(t)
	program := filepath.Join(t.TempDir(), "nfsrdmad")
	if out, err := exec.Command("go", "build", "-o", program, "../../../cmd/nfsrdmad").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := func(args ...string) (string, int) {
		t.Helper()
		c := exec.CommandContext(within(t), program, args...)
		out, err := c.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		t.Logf("%s\n%s", strings.Join(args, " "), out)
		return string(out), c.ProcessState.ExitCode()
	}
	overTCP, overRDMA := serveBoth(t, s, "rw,insecure,sec=krb5p")
	named := []string{"--sec", "krb5p", "--server-principal", target}
	for _, c := range []struct {
		name   string
		args   []string
		status int
		says   string
	}{
		{"probe", append([]string{"probe", overRDMA.String(), "--transport", "rdma"}, named...), 0, "krb5p with " + acceptorName},
		{"probe without a key for that name", []string{"probe", overTCP.String(), "--transport", "tcp", "--sec", "krb5"}, 1, "no context of RPCSEC_GSS was made"},
		{"bench", append([]string{"bench", "127.0.0.1:/data", "--port", fmt.Sprint(overTCP.Port()), "--ops", "20", "--workload", "getattr", "--nfs", "4.2"}, named...), 0, "sec=krb5p"},
		{"bench by a keytab", append([]string{"bench", "127.0.0.1:/data", "--transport", "rdma", "--port", fmt.Sprint(overRDMA.Port()), "--ops", "20", "--workload", "getattr", "--keytab", s.machineKeytab, "--principal", machine}, named...), 0, "sec=krb5p"},
		{"a relay that shares by mistake", append([]string{"relay", "--listen", "127.0.0.1:0", overRDMA.String()}, named...), 2, "--share-principal"},
		{"a flavor that is none", []string{"probe", "127.0.0.1", "--sec", "krb6"}, 2, "none of sys, krb5, krb5i, krb5p"},
		{"a keytab without Kerberos", []string{"probe", "127.0.0.1", "--keytab", s.keytab}, 2, "belong to --sec"},
		{"a principal without a keytab", []string{"probe", "127.0.0.1", "--sec", "krb5", "--principal", "x"}, 2, "--keytab"},
		{"a keytab that is not there", []string{"probe", "127.0.0.1", "--sec", "krb5", "--keytab", "/none"}, 1, "/none"},
		{"a user beside Kerberos", append([]string{"bench", "127.0.0.1:/data", "--uid", "5"}, named...), 2, "--uid"},
		{"flags of a relay without Kerberos", []string{"relay", "--listen", "127.0.0.1:0", "--share-principal", "127.0.0.1"}, 2, "belong to --sec"},
	} {
		if out, status := run(c.args...); status != c.status || !strings.Contains(out, c.says) {
			t.Errorf("%s: exit status %d, want %d and %q", c.name, status, c.status, c.says)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	through := at(client.TCP, l.Addr().(*net.TCPAddr).AddrPort())
	l.Close()
	r := servertest.StartProcess(t, exec.Command(program, append([]string{
		"relay", "--listen", through.Address(), "--share-principal", "--insecure", overRDMA.String(),
	}, named...)...))
	r.AwaitLine("relaying")
	c, err := client.Dial(within(t), through)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	root, err := c.MountRoot(within(t), "/data", 0)
	if err == nil {
		_, err = c.NFS3().Mkdir(within(t), root, "by-the-relay", nfs3wire.Sattr3{})
	}
	if err != nil {
		t.Errorf("through the relay: %v", err)
	}
	r.Signal(syscall.SIGTERM)
	if status := r.Wait(); status != 0 {
		t.Errorf("the relay ends with %d", status)
	}
}

// startRelay runs a relay and says how it is reached.
func startRelay(t *testing.T, cfg relay.Config) client.Target {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r, err := relay.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Check(within(t)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- r.Serve(l) }()
	t.Cleanup(func() {
		r.Close()
		if err := <-ended; err != relay.ErrClosed {
			t.Error(err)
		}
	})
	return at(client.TCP, l.Addr().(*net.TCPAddr).AddrPort())
}
