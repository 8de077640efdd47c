package rpcbind_test

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpcbind"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
)

// inNamespace is the environment variable that tells the test that it runs in the separate
// namespaces.
const inNamespace = "RPCBIND_TEST_NAMESPACE"

// The rpcbind of Linux distributions accepts our registrations over its socket and over its port.
// The test runs itself again in a new network and mount namespace, with an rpcbind of its own.
func TestRealRpcbind(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		for _, tool := range []string{"rpcbind", "unshare", "mount", "ip"} {
			if _, err := exec.LookPath(tool); err != nil {
				t.Skipf("no %s here", tool)
			}
		}
		if os.Getuid() != 0 {
			t.Skip("namespaces take root")
		}
		if out, err := exec.Command("unshare", "--net", "--mount", "true").CombinedOutput(); err != nil {
			t.Skipf("no namespaces here: %s", out)
		}
		cmd := exec.Command("unshare", "--net", "--mount", "sh", "-ec", `
			mount -t tmpfs tmpfs /run
			ip link set lo up
			exec "$0" -test.run '^TestRealRpcbind$' -test.count 1`, os.Args[0])
		cmd.Env = append(os.Environ(), inNamespace+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	daemon := exec.Command("rpcbind", "-f")
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	defer daemon.Wait()
	defer daemon.Process.Kill()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dial := tcp.DialConfig{}.Dialer()
	for {
		if c, err := dial(ctx, "unix", rpcbind.LocalSocket); err == nil {
			c.Close()
			break
		}
		if ctx.Err() != nil {
			t.Fatal("rpcbind does not come up")
		}
	}
	for name, c := range map[string]*rpcbind.Client{
		"socket": {Dial: dial, Owner: "nfsrdmad"},
		"port":   {Dial: dial, Owner: "nfsrdmad", Network: "tcp", Address: rpcbind.LocalAddress},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.Register(ctx, mappings(), dead); err != nil {
				if name == "port" {
					// Some builds of rpcbind accept registrations over the socket only.
					t.Skip(err)
				}
				t.Fatal(err)
			}
			all, err := c.Dump(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range mappings() {
				if !slices.ContainsFunc(all, func(x rpcbind.Mapping) bool {
					return x.Program == m.Program && x.Version == m.Version && x.Netid == m.Netid && x.Address == m.Address
				}) {
					t.Errorf("%+v is not among %+v", m, all)
				}
			}
			if err := c.Unregister(ctx, mappings(), dead); err != nil {
				t.Fatal(err)
			}
			if all, err = c.Dump(ctx); err != nil || slices.ContainsFunc(all, func(x rpcbind.Mapping) bool { return x.Program == 100003 }) {
				t.Errorf("%+v, %v", all, err)
			}
		})
	}
}
