//go:build kernel

package kernel

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// TestContainerWithDevice tests the image for RDMA devices with a device. In a guest, podman starts
// the container by the commands of docs/containers.md: without any privilege, and with two device
// nodes. A Linux client mounts its export over rxe and over TCP, also after the device was removed
// and added again.
func TestContainerWithDevice(t *testing.T) {
	if !everything() {
		t.Skip("make test-all runs it: TestContainer and TestDevices show the image and the device each alone")
	}
	t.Parallel()
	text, err := os.ReadFile("../../docs/containers.md")
	if err != nil {
		t.Fatal(err)
	}
	build, start, _ := strings.Cut(strings.TrimSpace(commandsOf(string(text), "RDMA devices", "")), "\n")
	if build != "make image VERBS=1 ENGINE=podman" {
		t.Fatalf("the first command in docs/containers.md is %q, not make image", build)
	}
	base := t.TempDir() // Guests see it at the same path.
	store, debian := filepath.Join(base, "store"), lab.Images{}.Store(t)
	from := &imageSource{
		containerfile: "Containerfile.verbs", program: "nfsrdmad-verbs", cgo: "1", tags: "verbs,netgo,osusergo",
		store: append(lab.Buildah(store, filepath.Join(base, "running")), "--storage-opt", "overlay.imagestore="+debian),
		build: []string{"--layers", "--build-arg", "BASE=" + lab.BaseImage},
	}
	from.tag(t, base)
	// The guest's own root cannot be the upper part of another overlay, but a tmpfs can.
	storage := filepath.Join(base, "storage.conf")
	config := fmt.Sprintf("[storage]\ndriver = \"overlay\"\ngraphroot = \"/run/graph\"\nrunroot = \"/run/running\"\n[storage.options]\nadditionalimagestores = [%q, %q]\n", store, debian)
	if err := os.WriteFile(storage, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, network: lab.NewNetworkOf(t, jumbo)}
	// The user-mode kernel has no control groups, by which an engine forbids other devices. With two
	// processors, an emulated guest on a busy machine was several times slower.
	d := s.runOnDevice("rxe", lab.Options{Kernel: lab.Stock6_12, CPUs: 1, Limit: 40 * time.Minute, Env: []string{"CONTAINERS_STORAGE_CONF=" + storage}},
		script(t, "container"), "in_container", start)
	d.scene("confined")
	client := func(folder int, how string) {
		d.run(lab.Options{Limit: 20 * time.Minute, Address: 15, Env: []string{fmt.Sprintf("EXPORT=/export/%d", folder)}}, "write_remount_compare", how)
	}
	client(0, "rdma/4.2")
	d.scene("remove")
	client(1, "rdma")
	client(2, "tcp")
	d.stop()
}
