package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/nfsrdmad/nfsrdmad/server/admin"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// useFile makes a file, and writes and reads it several times.
func useFile(ctx context.Context, c *servertest.Client, name string) error {
	dir, err := c.Mount(ctx, "/")
	if err != nil {
		return err
	}
	file, err := c.Create(ctx, dir, name, 0o644)
	if err != nil {
		return err
	}
	for i := range 20 {
		data := bytes.Repeat([]byte{byte(i + 1)}, 1000*(i+1)) // inline, in parts and in chunks
		if n, err := c.Write(ctx, file, 0, data, wire.Unstable); err != nil || n != len(data) {
			return fmt.Errorf("WRITE of %d bytes: %d, %w", len(data), n, err)
		}
		got := make([]byte, len(data))
		if n, err := c.Read(ctx, file, 0, got); err != nil || !bytes.Equal(got[:n], data) {
			return fmt.Errorf("READ of %d bytes: %d, %w", len(data), n, err)
		}
	}
	return nil
}

// A daemon that speaks both versions serves clients of each at the same time, on one listener.
func TestBothVersionsOnOneListener(t *testing.T) {
	d := start(t, "rw,insecure,no_root_squash", "--rdma-versions", "1,2")
	ctx := testContext(t)
	var running errgroup.Group
	for i := range 4 {
		for version, dial := range map[int]func() (*servertest.Client, error){
			1: func() (*servertest.Client, error) { return servertest.DialRDMA(ctx, d.rdma) },
			2: func() (*servertest.Client, error) { return servertest.DialRDMA2(ctx, d.rdma) },
		} {
			c, err := dial()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			if info, ok := c.Caller.(*rdma.Client).Info(); !ok || info.Version != version {
				t.Errorf("a client of version %d has a connection of version %d", version, info.Version)
			}
			running.Go(func() error {
				if err := useFile(ctx, c, fmt.Sprintf("v%d.%d", version, i)); err != nil {
					return fmt.Errorf("version %d: %w", version, err)
				}
				return nil
			})
		}
	}
	if err := running.Wait(); err != nil {
		t.Error(err)
	}
	if st := asked[admin.Status](t, d, "status"); !slices.Equal(st.RDMAVersions, []int{1, 2}) {
		t.Errorf("status: %v", st.RDMAVersions)
	}
	if out := d.ask(t, "status"); !strings.Contains(out, "1, 2") {
		t.Errorf("status does not name the versions:\n%s", out)
	}
}

// By default a daemon speaks version 1 alone. A client that proposes version 2 is told so.
func TestVersion1IsTheDefault(t *testing.T) {
	d := start(t, "rw,insecure,no_root_squash")
	ctx := testContext(t)
	if c, err := servertest.DialRDMA2(ctx, d.rdma); !errors.Is(err, rdma.ErrVersion2) {
		t.Errorf("a client of version 2: %v", err)
		if err == nil {
			c.Close()
		}
	}
	c, err := servertest.DialRDMA(ctx, d.rdma)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := useFile(ctx, c, "file"); err != nil {
		t.Error(err)
	}
	if st := asked[admin.Status](t, d, "status"); !slices.Equal(st.RDMAVersions, []int{1}) {
		t.Errorf("status: %v", st.RDMAVersions)
	}
}

// doctor and serve --check name the versions of RPC-over-RDMA, unless RDMA is not served.
func TestDoctorNamesTheVersions(t *testing.T) {
	ip := ownLoopback()
	tcp, over := servertest.FreePort(t, ip).String(), servertest.FreePort(t, ip).String()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--rdma", over}, "version 1, "},
		{[]string{"--rdma", over, "--rdma-versions", "1,2"}, "versions 1 and 2"},
		{[]string{"--rdma", "none"}, ""},
	} {
		common := append([]string{"--tcp", tcp, "--state-dir", t.TempDir()}, c.args...)
		for _, command := range [][]string{{"doctor"}, {"serve", "--check", "--export", t.TempDir()}} {
			p := nfsrdmad(t, append(command, common...)...)
			p.Wait()
			if c.want != "" {
				says(t, p, "RPC-over-RDMA", "yes", c.want)
			} else if strings.Contains(p.Output(), "RPC-over-RDMA") {
				t.Errorf("%v speaks of RPC-over-RDMA:\n%s", command, p.Output())
			}
		}
	}
}

// The requester of test/requester uses every form of message over version 2, with NFS versions 3, 4.1 and 4.2.
func TestRequesterOverVersion2(t *testing.T) {
	program := filepath.Join(t.TempDir(), "requester")
	build := exec.Command("go", "build", "-o", program, "./test/requester")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the requester: %v\n%s", err, out)
	}
	d := start(t, "rw,insecure,no_root_squash", "--rdma-versions", "1,2")
	for _, version := range []string{"3", "4.1", "4.2"} {
		t.Run(version, func(t *testing.T) {
			out, err := exec.CommandContext(testContext(t), program, "--nfs", version, "--rdma-version", "2", "--names", "60", "--rounds", "1",
				"--port", fmt.Sprint(d.rdma.Port()), "--mount-port", fmt.Sprint(d.tcp.Port()), d.rdma.Addr().String(), "/").CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
