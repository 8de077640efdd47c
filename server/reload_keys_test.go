package server_test

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/server"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/logline"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	wire4 "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// reloadingKeys is a server in the process of the test, whose configuration the test changes. The server lives until stop.
type reloadingKeys struct {
	*server.Server
	t       *testing.T
	stop    func()
	values  map[string]string // TOML values by dotted keys
	exports string            // TOML
}

func startReloadingKeys(t *testing.T) *reloadingKeys {
	t.Helper()
	ip := ownLoopback()
	k := &reloadingKeys{
		t: t,
		values: map[string]string{
			"tcp": fmt.Sprintf("[%q]", servertest.FreePort(t, ip)), "rdma": `["none"]`, "state_dir": fmt.Sprintf("%q", t.TempDir()), "rpcbind": "false",
			// With so few connections, the time limits hold for all of them.
			"limits.connections": "32", "limits.first_call_timeout": `"1h"`,
		},
		exports: fmt.Sprintf("[[export]]\npath = %q\nname = \"/\"\noptions = \"insecure,no_root_squash\"\n", t.TempDir()),
	}
	k.start()
	return k
}

// start starts the server with the values. The former one must have ended.
func (k *reloadingKeys) start() {
	t := k.t
	t.Helper()
	cfg, err := k.read()
	if err != nil {
		t.Fatal(err)
	}
	// A daemon sets the umask of its process, which is here that of all tests.
	umask := syscall.Umask(0)
	t.Cleanup(func() { syscall.Umask(umask) })
	k.Server, err = server.New(cfg)
	syscall.Umask(umask)
	if err != nil {
		t.Fatal(err)
	}
	k.stop = run(t, k.Server)
	await(t, testContext(t), "it serves", func() bool { return k.logs(logline.Serving) })
}

// read reads the configuration from a file.
func (k *reloadingKeys) read() (*config.Config, error) {
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(k.values)) {
		fmt.Fprintf(&text, "%s = %s\n", key, k.values[key])
	}
	file := filepath.Join(k.t.TempDir(), "nfsrdmad.toml")
	if err := os.WriteFile(file, []byte(text.String()+k.exports), 0o600); err != nil {
		return nil, err
	}
	return config.Read(file)
}

// reload reloads with another value of a key.
func (k *reloadingKeys) reload(key, value string) (applied, waiting []string) {
	k.t.Helper()
	k.values[key] = value
	applied, waiting, err := k.ReloadKeys(k.read)
	if err != nil {
		k.t.Fatalf("%s = %s: %v", key, value, err)
	}
	return applied, waiting
}

// unquoted returns the value of a key that is a string.
func (k *reloadingKeys) unquoted(key string) string {
	k.t.Helper()
	value, err := strconv.Unquote(k.values[key])
	if err != nil {
		k.t.Fatal(err)
	}
	return value
}

// logs reports whether one of the last lines of the log has all words.
func (k *reloadingKeys) logs(words ...string) bool {
	return slices.ContainsFunc(k.LastLines(), func(line string) bool {
		return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) })
	})
}

// dial connects, and makes a NULL call, which needs no export.
func (k *reloadingKeys) dial() *servertest.Client {
	k.t.Helper()
	c, err := servertest.DialTCP(testContext(k.t), k.TCPAddrs()[0])
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(c.Close)
	_ = c.Null(testContext(k.t)) // fails if the connection has been ended
	return c
}

// elsewhere is an address at which the test listens, as a TOML value. It differs from test to test.
const elsewhere = "elsewhere"

// reloadedKeys has, for each key whose changes a reload applies, another value than that of startReloadingKeys, and a
// function that sees whether the running server uses it.
var reloadedKeys = map[string]struct {
	value string
	seen  func(k *reloadingKeys)
}{
	"log_level": {`"debug"`, func(k *reloadingKeys) {
		if is := k.LogLevel(); is != "debug" {
			k.t.Errorf("the level of the log is %s", is)
		}
	}},
	"metrics": {elsewhere, func(k *reloadingKeys) {
		if text := scrape(k.t, k.unquoted("metrics")); !strings.Contains(text, "nfsrdmad_build_info") {
			k.t.Errorf("what is served there: %s", text)
		}
	}},
	"status_page": {elsewhere, func(k *reloadingKeys) {
		if page := webPage(k.t, "http://"+k.unquoted("status_page")+"/"); !strings.Contains(page, "nfsrdmad") {
			k.t.Errorf("what is served there: %s", page)
		}
	}},
	"status_page_open": {"true", func(k *reloadingKeys) {
		k.reload("status_page", fmt.Sprintf("%q", servertest.FreePort(k.t, ownLoopback())))
		asked := func() int {
			r, err := http.NewRequest(http.MethodGet, "http://"+k.unquoted("status_page")+"/", nil)
			if err != nil {
				k.t.Fatal(err)
			}
			r.Host = "192.0.2.1"
			w, err := http.DefaultClient.Do(r)
			if err != nil {
				k.t.Fatal(err)
			}
			w.Body.Close()
			return w.StatusCode
		}
		if status := asked(); status != http.StatusOK {
			k.t.Errorf("by another address than loopback: %d", status)
		}
		k.reload("status_page_open", "false")
		if status := asked(); status != http.StatusMisdirectedRequest {
			k.t.Errorf("closed again, by another address than loopback: %d", status)
		}
		k.reload("status_page_open", "true")
	}},
	"drain_timeout": {`"7s"`, func(k *reloadingKeys) {
		if is := k.EndsWithin(); is != 9*time.Second {
			k.t.Errorf("it ends within %v", is)
		}
	}},
	"slow_call": {`"1ns"`, func(k *reloadingKeys) {
		ctx := testContext(k.t)
		c := k.dial()
		root, err := c.Mount(ctx, "/")
		if err != nil {
			k.t.Fatal(err)
		}
		file, err := c.Create(ctx, root, "slow", 0o600)
		if err != nil {
			k.t.Fatal(err)
		}
		await(k.t, ctx, "a call is slow", func() bool {
			if _, err := c.Write(ctx, file, 0, []byte("x"), wire.FileSync); err != nil {
				k.t.Fatal(err)
			}
			return k.logs(logline.SlowCall)
		})
	}},
	"limits.connections_per_client": {"2", func(k *reloadingKeys) {
		gone := func() uint64 { n := k.Seats().Count; return n[census.Evicted] + n[census.AddressFull] }
		before := gone()
		for range 4 {
			k.dial()
		}
		if n := gone() - before; n < 2 {
			k.t.Errorf("%d of 4 connections went for others, or were refused", n)
		}
	}},
	"limits.first_call_timeout": {`"100ms"`, func(k *reloadingKeys) {
		k.dial()
		await(k.t, testContext(k.t), "a connection without a call for an export ends", func() bool {
			return k.Seats().Count[census.NothingServed] > 0
		})
	}},
	"kerberos.realm": {`"EXAMPLE.ORG"`, func(k *reloadingKeys) {
		if uid, ok := k.UserOf("root@EXAMPLE.ORG"); !ok || uid != 0 {
			k.t.Errorf("root of the realm is %d, %v", uid, ok)
		}
	}},
	"kerberos.account": {`"%u-of-%d"`, func(k *reloadingKeys) {
		k.reload("kerberos.realm", `"EXAMPLE.ORG"`)
		if uid, ok := k.UserOf("root@EXAMPLE.ORG"); ok {
			k.t.Errorf("root-of-example.org is %d", uid)
		}
	}},
	"kerberos.principals": {`["backup/host@OTHER.EXAMPLE=root"]`, func(k *reloadingKeys) {
		if uid, ok := k.UserOf("backup/host@OTHER.EXAMPLE"); !ok || uid != 0 {
			k.t.Errorf("the principal is %d, %v", uid, ok)
		}
	}},
}

// restartKeys has, for each other key, another value than that of startReloadingKeys.
var restartKeys = map[string]string{
	"rdma": `[":1"]`, "tcp": `[":2"]`, "rdma_versions": "[1, 2]", "state_dir": `"/another"`, "log_format": `"json"`,
	"admin_socket": `"none"`, "rpcbind": "true", "strict": "true", "busy_poll": `"0s"`,
	"memory.ceiling": `"128M"`, "memory.connection": `"8M"`, "memory.state": `"16M"`, "memory.replies": `"8M"`,
	"rnic.crc": `"on"`, "rnic.fpdu": `"mss"`, "rnic.provider": `"iwarp"`, "rnic.device_memory": `"8M"`, "rnic.credits": "64", "rnic.inline": `"8K"`,
	"limits.connections": "64", "limits.setup_timeout": `"1s"`, "limits.calls_in_flight": "7", "limits.stall_timeout": `"1s"`, "limits.idle_timeout": `"1h"`,
	"nfs.versions": `["3"]`, "nfs.lease_time": `"30s"`, "nfs.grace_time": `"10s"`, "nfs.owners": `"names"`, "nfs.domain": `"example.org"`,
	"kerberos.keytab": `"/another"`,
}

// A reload applies each key that says so to the running server, and names it, and names each other key as one that waits
// for a restart. The keys of exports are the subject of TestReload.
func TestEveryKeyAtAReload(t *testing.T) {
	var waits []string
	for _, key := range config.Keys() {
		if strings.HasPrefix(key.Name, "export.") {
			if !key.Reloads {
				t.Errorf("%s waits for a restart", key.Name)
			}
			continue
		}
		if !key.Reloads {
			waits = append(waits, key.Name)
			continue
		}
		t.Run(key.Name, func(t *testing.T) {
			to := reloadedKeys[key.Name]
			if to.seen == nil {
				t.Fatal("no test sees whether a reload applies it")
			}
			k := startReloadingKeys(t)
			if to.value == elsewhere {
				to.value = fmt.Sprintf("%q", servertest.FreePort(t, ownLoopback()))
			}
			applied, waiting := k.reload(key.Name, to.value)
			if !slices.Equal(applied, []string{key.Name}) || len(waiting) > 0 {
				t.Errorf("applied: %q, waiting: %q", applied, waiting)
			}
			if !k.logs(logline.Reloaded, `"keys": ["`+key.Name+`"]`) {
				t.Errorf("no line names it: %q", k.LastLines())
			}
			to.seen(k)
			if applied, _ := k.reload(key.Name, to.value); slices.Contains(applied, key.Name) {
				t.Error("the next reload names it again, without a change")
			}
		})
	}
	t.Run("others", func(t *testing.T) {
		k := startReloadingKeys(t)
		was := maps.Clone(k.values)
		for _, key := range waits {
			if k.values[key] = restartKeys[key]; restartKeys[key] == "" {
				t.Fatalf("%s has no other value in this test", key)
			}
		}
		for range 2 { // they wait until they are as at the start again, or the server starts anew
			applied, waiting := k.reload("log_level", `"info"`)
			if len(applied) > 0 || !slices.Equal(waiting, waits) {
				t.Errorf("applied: %q, waiting: %q, want %q", applied, waiting, waits)
			}
		}
		if !k.logs(logline.RestartNeeded, `"keys": ["`+strings.Join(waits, `", "`)+`"]`) {
			t.Errorf("no line names them: %q", k.LastLines())
		}
		k.values = was
		if applied, waiting := k.reload("log_level", `"info"`); len(applied)+len(waiting) > 0 {
			t.Errorf("as at the start: applied: %q, waiting: %q", applied, waiting)
		}
	})
}

// A reload moves the metrics and the status page to another address, where they are served before they end at the former
// one. If the daemon cannot listen at the new address, what was served goes on, a line names the key, and the next reload
// tries again. That also holds for the address at the start.
func TestWebServicesMoveAtAReload(t *testing.T) {
	for key, path := range map[string]string{"metrics": "/metrics", "status_page": "/"} {
		t.Run(key, func(t *testing.T) {
			k := startReloadingKeys(t)
			served := func(at string) bool {
				client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
				r, err := client.Get("http://" + at + path)
				if err != nil {
					return false
				}
				r.Body.Close()
				return r.StatusCode == http.StatusOK
			}
			first, second := servertest.FreePort(t, ownLoopback()).String(), servertest.FreePort(t, ownLoopback()).String()
			other, err := net.Listen("tcp", servertest.FreePort(t, ownLoopback()).String())
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			taken := other.Addr().String()
			for _, step := range []struct {
				to       string
				kept     bool
				at, gone string
			}{
				{first, false, first, ""},
				{second, false, second, first},
				{taken, true, second, first},
				{taken, true, second, first}, // it tries again
				{first, false, first, second},
				{"", false, "", first},
			} {
				if k.values[key] = strconv.Quote(step.to); step.to == "" {
					delete(k.values, key)
				}
				applied, kept, err := k.ReloadKept(k.read)
				if err != nil || slices.Contains(applied, key) == step.kept || slices.Contains(kept, key) != step.kept {
					t.Errorf("to %q: applied: %q, kept: %q, %v", step.to, applied, kept, err)
				}
				if step.kept && !k.logs(logline.ValueKept, `"`+key+`"`, "address already in use") {
					t.Errorf("no line says that %s is as before: %q", key, k.LastLines())
				}
				if step.at != "" && !served(step.at) || step.gone != "" && served(step.gone) {
					t.Errorf("to %q: at %s: %v, at %s: %v", step.to, step.at, served(step.at), step.gone, served(step.gone))
				}
			}
			k.stop()
			k.values[key] = strconv.Quote(taken)
			k.start()
			if !k.logs("cannot listen for", "address already in use") {
				t.Fatalf("the start at a taken address: %q", k.LastLines())
			}
			other.Close()
			if applied, _ := k.reload("drain_timeout", `"7s"`); !slices.Contains(applied, key) || !served(taken) {
				t.Errorf("the reload after a start at a taken address: applied %q", applied)
			}
		})
	}
}

// If a reload turns the metrics on, they have the durations of the calls from then on, by NFSv3 and by NFSv4.
func TestDurationsAfterAReloadThatTurnsMetricsOn(t *testing.T) {
	k := startReloadingKeys(t)
	ctx := testContext(t)
	c := k.dial()
	root, err := c.Mount(ctx, "/")
	if err != nil {
		t.Fatal(err)
	}
	k.reload("metrics", fmt.Sprintf("%q", servertest.FreePort(t, ownLoopback())))
	if _, err := c.GetAttr(ctx, root); err != nil {
		t.Fatal(err)
	}
	at := k.TCPAddrs()[0]
	s, err := client.DialSession(ctx, client.SessionConfig{
		Target: client.Target{Transport: client.TCP, Host: at.Addr().String(), Port: int(at.Port()), Cred: client.Self()},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.NFS4().Getattr(ctx, nil, wire4.Bits(wire4.Fattr4FileID)); err != nil {
		t.Fatal(err)
	}
	text := scrape(t, k.unquoted("metrics"))
	for _, want := range []string{`nfsrdmad_call_seconds_count{procedure="GETATTR",program="nfs"} 1`, `nfsrdmad_nfs4_operation_seconds_count{operation="GETATTR"} `} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}

// The daemon ends within the drain timeout that it read last.
func TestDrainTimeoutOfAReload(t *testing.T) {
	k := startReloadingKeys(t)
	k.reload("drain_timeout", `"7s"`)
	k.stop()
	if !k.logs(logline.Draining, `"at_most": "7s"`) {
		t.Errorf("%q", k.LastLines())
	}
}

// If a reload fails, because a value is wrong or because there is nothing to serve, no key changes.
func TestFailedReloadChangesNoKey(t *testing.T) {
	k := startReloadingKeys(t)
	was := k.exports
	for what, breaks := range map[string]func(){
		"a wrong value": func() { k.values["slow_call"] = `"-1s"` },
		"no export":     func() { k.exports = "" },
	} {
		breaks()
		k.values["log_level"], k.values["drain_timeout"] = `"debug"`, `"7s"`
		if applied, waiting, err := k.ReloadKeys(k.read); err == nil || len(applied)+len(waiting) > 0 {
			t.Errorf("%s: %v, applied: %q, waiting: %q", what, err, applied, waiting)
		}
		if k.LogLevel() != "info" || k.EndsWithin() != 32*time.Second {
			t.Errorf("%s: the level of the log is %s, and it ends within %v", what, k.LogLevel(), k.EndsWithin())
		}
		k.exports = was
		delete(k.values, "slow_call")
	}
	if applied, _ := k.reload("log_level", `"debug"`); !slices.Equal(applied, []string{"log_level", "drain_timeout"}) {
		t.Errorf("without the mistakes: %q", applied)
	}
}

// A level of the log that the administrator has ordered outlasts a reload, unless the key has changed in the file.
func TestOrderedLogLevelAtAReload(t *testing.T) {
	k := startReloadingKeys(t)
	is := func(after, want string) {
		t.Helper()
		if level := k.LogLevel(); level != want {
			t.Errorf("after %s: %s, want %s", after, level, want)
		}
	}
	if err := k.OrderLevel("debug"); err != nil {
		t.Fatal(err)
	}
	k.reload("drain_timeout", `"7s"`)
	is("a reload for another key", "debug")
	k.reload("log_level", `"warn"`)
	is("a reload with another level in the file", "warn")
	if err := k.OrderLevel("error"); err != nil {
		t.Fatal(err)
	}
	k.reload("log_level", `"warn"`)
	is("a reload with the same level in the file", "error")
	k.reload("log_level", `"info"`)
	is("a reload with another level again", "info")
}
