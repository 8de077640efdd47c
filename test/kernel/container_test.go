//go:build kernel

package kernel

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// TestContainer tests that the container image works without any privilege: a Linux client mounts
// its export over both transports.
func TestContainer(t *testing.T) {
	t.Parallel()
	needsDaemon(t)
	base := lab.Folder(t, "container")
	from := &imageSource{
		containerfile: "Containerfile", program: "nfsrdmad",
		cgo:   "0", // The program is static, as `make build` makes it, because the image has no libraries.
		store: []string{"--storage-driver", "vfs", "--root", filepath.Join(base, "storage"), "--runroot", filepath.Join(base, "running")},
	}
	image := from.unpack(t, base)
	n := lab.NewNetwork(t)
	serve := append(image.Entrypoint, "serve", "--export", "/export:/work,rw,insecure,all_squash,anonuid=2049,anongid=2049")
	lab.StartServer(t, n, "nfsrdmad in a container", image.command(t, base, serve...), lab.PortRDMA, lab.PortTCP)
	for _, how := range transports {
		lab.Boot(t, n, lab.Options{Limit: 4 * time.Minute, Env: []string{"EXPORT=/work"}}, script(t, "write_remount_compare"), how).Succeed()
	}
}

// An image is an unpacked container image and the parts of its configuration that say how to
// start it.
type image struct {
	root            string
	User            string
	Entrypoint, Cmd []string
	Volumes         map[string]struct{}
}

// An imageSource says how an image is built.
type imageSource struct {
	containerfile, program string
	cgo, tags              string   // for compiling the program: CGO_ENABLED, and the build tags
	store                  []string // buildah's options for its store of images
	build                  []string // further options of buildah's command build
}

// tag runs buildah on the Containerfile, with a program built from this tree. The image gets the
// name of the program. tag returns a function that runs a command beside the program and returns
// the command's output, and the arguments with which buildah builds the image.
func (from *imageSource) tag(t *testing.T, base string) (run func(name string, args ...string) []byte, build []string) {
	t.Helper()
	tree := filepath.Join(base, "tree")
	if err := os.MkdirAll(filepath.Join(tree, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := filepath.Abs(filepath.Join("../..", from.containerfile))
	if err != nil {
		t.Fatal(err)
	}
	run = func(name string, args ...string) []byte {
		t.Helper()
		c := exec.Command(name, args...)
		c.Dir = tree
		out, err := c.Output()
		if err != nil {
			var said []byte
			if exit, ok := err.(*exec.ExitError); ok {
				said = exit.Stderr
			}
			t.Fatalf("%s %q: %v\n%s%s", name, args, err, out, said)
		}
		return out
	}
	run("env", "CGO_ENABLED="+from.cgo, "go", "build", "-C", filepath.Dir(file), "-trimpath", "-tags", from.tags, "-o", filepath.Join(tree, from.program), "./cmd/nfsrdmad")
	build = slices.Concat(from.store, []string{"build", "--isolation", "chroot", "--file", file}, from.build)
	run("buildah", append(slices.Clone(build), "--tag", from.program, ".")...)
	return run, build
}

// unpack builds the image and unpacks it in a folder.
func (from *imageSource) unpack(t *testing.T, base string) *image {
	t.Helper()
	run, build := from.tag(t, base)
	i := &image{root: filepath.Join(base, "root")}
	run("buildah", append(slices.Clone(build), "--output", "type=local,dest="+i.root, ".")...)
	// buildah gives the folder a mode that lets only root in.
	if err := os.Chmod(i.root, 0o755); err != nil {
		t.Fatal(err)
	}
	var said struct{ OCIv1 struct{ Config *image } }
	if err := json.Unmarshal(run("buildah", append(slices.Clone(from.store), "inspect", "--type", "image", from.program)...), &said); err != nil {
		t.Fatal(err)
	}
	i.User, i.Entrypoint, i.Cmd, i.Volumes = said.OCIv1.Config.User, said.OCIv1.Config.Entrypoint, said.OCIv1.Config.Cmd, said.OCIv1.Config.Volumes
	if i.User != "2049:2049" || fmt.Sprint(i.Cmd) != "[serve]" || len(i.Volumes) != 1 {
		t.Fatalf("the image is %+v", i)
	}
	return i
}

// command returns the command that runs a program of the image as the image's user, without
// capabilities. The root file system is read-only except for the image's volumes and /export, and
// /proc is mounted.
func (i *image) command(t *testing.T, base string, program ...string) []string {
	t.Helper()
	folder := func(path string) string {
		t.Helper()
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const user = 2049
	folder(filepath.Join(i.root, "proc"))
	script := `mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && mount -t proc proc "$1/proc"`
	for inside := range i.Volumes {
		// A container engine gives a volume the owner that the directory has in the image, so
		// this must be right.
		owner, err := os.Stat(filepath.Join(i.root, inside))
		if err != nil {
			t.Fatal(err)
		}
		if uid := owner.Sys().(*syscall.Stat_t).Uid; uid != user {
			t.Errorf("%s belongs to user %d in the image", inside, uid)
		}
	}
	volumes := slices.Collect(maps.Keys(i.Volumes))
	for _, inside := range append(volumes, "/export") {
		folder(filepath.Join(i.root, inside))
		from := folder(filepath.Join(base, "volumes", inside))
		if err := os.Chown(from, user, user); err != nil {
			t.Fatal(err)
		}
		script += fmt.Sprintf(` && mount --bind %q "$1"%q`, from, inside)
	}
	script += ` && exec setpriv --no-new-privs --bounding-set -all,+sys_chroot,+setuid,+setgid chroot --userspec="$0" "$@"`
	return append([]string{"unshare", "--mount", "sh", "-c", script, i.User, i.root}, program...)
}
