//go:build kernel

package kernel

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// TestContainerWithDevice tests the image for RDMA devices with a device. In a guest, crun runs
// the image without any privilege, with the two device nodes that docs/containers.md names, and
// with the filter of system calls that podman uses. A Linux client mounts its export over rxe and
// over TCP, also after the device was removed and added again.
func TestContainerWithDevice(t *testing.T) {
	if !everything() {
		t.Skip("make test-all runs it: TestContainer and TestDevices show the image and the device each alone")
	}
	t.Parallel()
	base := t.TempDir() // Guests see it at the same path.
	image := buildImage(t, base, &imageSource{
		containerfile: "Containerfile.verbs", program: "nfsrdmad-verbs", cgo: "1", tags: "verbs,netgo,osusergo",
		store: append(lab.Buildah(filepath.Join(base, "store"), filepath.Join(base, "running")),
			"--storage-opt", "overlay.imagestore="+lab.Images{}.Store(t)),
		build: []string{"--layers", "--build-arg", "BASE=" + lab.BaseImage},
	})
	bundle := filepath.Join(base, "bundle")
	image.bundle(t, bundle, append(image.Entrypoint, "serve", "--rdma-provider", "verbs",
		"--export", "/export:/work,insecure,all_squash,anonuid=2049,anongid=2049")...)
	s := &server{t: t, network: lab.NewNetworkOf(t, jumbo)}
	d := s.runOnDevice("rxe", lab.Options{Limit: 15 * time.Minute}, script(t, "container"), "in_container", bundle)
	d.scene("confined")
	client := func(folder int, how string) {
		d.run(lab.Options{Limit: 8 * time.Minute, Address: 15, Env: []string{fmt.Sprintf("EXPORT=/work/%d", folder)}}, "write_remount_compare", how)
	}
	client(0, "rdma/4.2")
	d.scene("remove")
	client(1, "rdma")
	client(2, "tcp")
	d.stop()
}

// bundle writes the folder from which an OCI runtime runs a program of the image: as the image's
// user, without capabilities, with a read-only root, in the network of the host, and with the
// nodes of the guest's first RDMA device. The limit of locked memory is lifted.
func (i *image) bundle(t *testing.T, folder string, program ...string) {
	t.Helper()
	type object = map[string]any
	mount := func(to, kind, from string, options ...string) object {
		return object{"destination": to, "type": kind, "source": from, "options": options}
	}
	node := func(name string, major, minor int) object {
		return object{"path": "/dev/infiniband/" + name, "type": "c", "major": major, "minor": minor, "fileMode": 0o666}
	}
	var none []string
	config := object{
		"ociVersion": "1.0.2",
		"root":       object{"path": i.root, "readonly": true},
		"process": object{
			"user": object{"uid": 2049, "gid": 2049}, "args": program, "env": []string{"PATH=/usr/bin"}, "cwd": "/", "noNewPrivileges": true,
			"capabilities": object{"bounding": none, "effective": none, "permitted": none, "inheritable": none, "ambient": none},
			"rlimits":      []object{{"type": "RLIMIT_MEMLOCK", "hard": ^uint64(0), "soft": ^uint64(0)}},
		},
		"mounts": []object{
			mount("/proc", "proc", "proc", "nosuid", "noexec", "nodev"),
			mount("/sys", "sysfs", "sysfs", "nosuid", "noexec", "nodev", "ro"),
			mount("/dev", "tmpfs", "tmpfs", "nosuid", "strictatime", "mode=755"),
			mount("/tmp", "tmpfs", "tmpfs", "nosuid", "nodev"),
			mount("/var/lib/nfsrdmad", "bind", "/tmp/state", "bind", "rw"),
			mount("/export", "bind", "/srv/work", "bind", "rw"),
		},
		"linux": object{
			"namespaces":    []object{{"type": "mount"}, {"type": "pid"}, {"type": "uts"}},
			"devices":       []object{node("rdma_cm", 10, 256), node("uverbs0", 231, 192)},
			"seccomp":       engineFilter(t),
			"maskedPaths":   []string{"/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"},
			"readonlyPaths": []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		},
	}
	text, err := json.Marshal(config)
	if err == nil {
		err = os.MkdirAll(folder, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "config.json"), text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// engineFilter returns the system calls that podman permits to a container without capabilities.
// Podman's own file has entries that hold only with some capability or on some processor.
func engineFilter(t *testing.T) map[string]any {
	t.Helper()
	type condition struct{ Caps, Arches []string }
	var profile struct {
		DefaultAction   string
		DefaultErrnoRet uint
		Syscalls        []struct {
			Names              []string
			Action             string
			Args               []map[string]any
			ErrnoRet           *uint
			Includes, Excludes condition
		}
	}
	text, err := os.ReadFile("/usr/share/containers/seccomp.json")
	if err == nil {
		err = json.Unmarshal(text, &profile)
	}
	if err != nil {
		t.Fatal(err)
	}
	var calls []map[string]any
	for _, s := range profile.Syscalls {
		if len(s.Includes.Caps) > 0 || len(s.Includes.Arches) > 0 && !slices.Contains(s.Includes.Arches, "amd64") || slices.Contains(s.Excludes.Arches, "amd64") {
			continue
		}
		call := map[string]any{"names": s.Names, "action": s.Action, "args": s.Args}
		if s.ErrnoRet != nil {
			call["errnoRet"] = *s.ErrnoRet
		}
		calls = append(calls, call)
	}
	return map[string]any{
		"defaultAction": profile.DefaultAction, "defaultErrnoRet": profile.DefaultErrnoRet,
		"architectures": []string{"SCMP_ARCH_X86_64"}, "syscalls": calls,
	}
}
