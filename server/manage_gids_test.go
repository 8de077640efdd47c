package server_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// directoryService makes a fake getent for a daemon. It reads its answers from files
// "DATABASE.KEY" in a directory.
func directoryService(t *testing.T) (path string, answers func(key, line string)) {
	t.Helper()
	dir := t.TempDir()
	answers = func(key, line string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, key), []byte(line+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	script := fmt.Sprintf("#!/bin/sh\n[ $1 != -s ] || shift 2\n[ -f %[1]s/$1.$2 ] || exit 2\nexec cat %[1]s/$1.$2\n", dir)
	if err := os.WriteFile(filepath.Join(dir, "getent"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir, answers
}

// With manage_gids a user has the groups of this machine, even more than 16, and none that
// only the client claims. Without it, the user has the groups that the client claims.
// Changed groups take effect after SIGHUP.
func TestManageGIDs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("becoming other users takes root")
	}
	path, answers := directoryService(t)
	const member, unknown, group = 70001, 70002, 71039
	groups := func(last int) {
		line := "many"
		for i := range 39 {
			line += fmt.Sprint(" ", 71000+i)
		}
		answers("initgroups.many", fmt.Sprint(line, " ", last))
	}
	answers("passwd.70001", "many:x:70001:70001::/:/bin/sh")
	groups(group)
	dir := directory(t, 0, 0o755)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(file, 0, group); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	ip := ownLoopback()
	d := &daemon{tcp: servertest.FreePort(t, ip), rdma: servertest.FreePort(t, ip)}
	config := filepath.Join(t.TempDir(), "nfsrdmad.toml")
	text := fmt.Sprintf("tcp = [%q]\nrdma = [%q]\nstate_dir = %q\nrpcbind = false\n", d.tcp, d.rdma, t.TempDir())
	for _, options := range []string{"insecure,manage_gids", "insecure"} {
		text += fmt.Sprintf("[[export]]\npath = %q\nname = \"/%s\"\noptions = %q\n", dir, strings.TrimPrefix(options, "insecure,"), options)
	}
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(binary(t), "serve", "--config", config)
	command.Env = append(os.Environ(), "PATH="+path+":"+os.Getenv("PATH"))
	d.Process = servertest.StartProcess(t, command)
	d.AwaitLine("serving")
	ctx := testContext(t)
	clients := d.dialBoth(t)
	read := func(transport, name string, uid uint32, groups ...uint32) error {
		t.Helper()
		c := clients[transport]
		var err error
		c.Cred = servertest.As(uid, uid)
		root, err := c.Mount(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		h, err := c.Lookup(ctx, root, "file")
		if err != nil {
			t.Fatal(err)
		}
		if c.Cred, err = rpc.AuthSysCred(0, "client", uid, uid, groups); err != nil {
			t.Fatal(err)
		}
		_, err = c.Read(ctx, h, 0, make([]byte, 1))
		return err
	}
	for transport := range clients {
		for _, c := range []struct {
			name   string
			uid    uint32
			groups []uint32
			may    bool
		}{
			{"/manage_gids", member, nil, true},
			{"/manage_gids", member, []uint32{group}, true},
			{"/manage_gids", unknown, []uint32{group}, false},
			{"/insecure", member, nil, false},
			{"/insecure", unknown, []uint32{group}, true},
		} {
			if err := read(transport, c.name, c.uid, c.groups...); (err == nil) != c.may || err != nil && !noAccess(err) {
				t.Errorf("%s, %s: user %d with groups %v: %v", transport, c.name, c.uid, c.groups, err)
			}
		}
	}
	groups(1)
	if err := read("tcp", "/manage_gids", member); err != nil {
		t.Errorf("what was found is not remembered: %v", err)
	}
	d.Signal(syscall.SIGHUP)
	d.AwaitLine("configuration read again")
	if err := read("tcp", "/manage_gids", member); !noAccess(err) {
		t.Errorf("after SIGHUP, a user has a group that it lost: %v", err)
	}
	ends(t, d.Process, syscall.SIGTERM, inOrder)
}

// noAccess reports whether a call ended with NFS3ERR_ACCES.
func noAccess(err error) bool {
	return err != nil && strings.Contains(err.Error(), wire.NFS3ErrAccess.String())
}
