//go:build kernel

package kernel

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/filemark"
	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// A volumeKind is a kind of file system of which a test has three volumes: A, B and C.
type volumeKind struct {
	name string
	// makes makes a volume, and mounts mounts it: shell scripts with the variables V (the volume's path), A (that of the
	// volume A), VOLUME (its letter), AT (the mount point) and WORKER.
	makes, mounts string
	// fleeting is true if the volume is empty at each mount.
	fleeting bool
	// lasts is true if handles are valid after the volume was unmounted and mounted again.
	lasts bool
	// alone is true if the file system is only served as an export of its own, with the kind as its name: its files have
	// no handles in the kernel.
	alone bool
	// below is the directory that gets the volume's files before it is mounted, in the volume's path. If it is empty, they
	// are written through the mount.
	below string
}

// diskImage returns a kind of disk image. Volume B is a copy of A that gets an identity of its own from a program.
func diskImage(name, size, anew string) volumeKind {
	return volumeKind{name: name, lasts: true, makes: `
		if [ $VOLUME = B ]; then
			cp --sparse=always "$A" "$V"
			` + anew + ` "$V" 2>&1
		else
			truncate -s ` + size + ` "$V"
			mkfs.` + name + ` -q "$V"
		fi`, mounts: `mount -o loop -t ` + name + ` "$V" "$AT"`}
}

func overlay(name, options string) volumeKind {
	// With index=on, an overlay cannot be mounted until the daemon has let go of the former mount of its layers.
	return volumeKind{name: name, lasts: true, below: "lower", makes: `mkdir -p "$V/lower" "$V/upper" "$V/work"`, mounts: `
		tries=0
		until mount -t overlay -o "lowerdir=$V/lower,upperdir=$V/upper,workdir=$V/work` + options + `" overlay "$AT"; do
			tries=$((tries+1))
			[ $tries -lt 600 ]
			sleep 0.1
		done`}
}

func alone(k volumeKind) volumeKind {
	k.name, k.alone = k.name+"-alone", true
	return k
}

var volumeKinds = []volumeKind{
	diskImage("ext4", "64M", `e2fsck -fp "$V"; tune2fs -f -U random`),
	diskImage("xfs", "320M", "xfs_admin -U generate"),
	diskImage("btrfs", "256M", "btrfstune -f -u"),
	{name: "tmpfs", fleeting: true, makes: ":", mounts: `mount -t tmpfs memory "$AT"`},
	alone(overlay("overlay", "")),
	alone(diskImage("ext4", "64M", `e2fsck -fp "$V"; tune2fs -f -U random`)),
	overlay("overlay-nfs-export", ",index=on,nfs_export=on"),
	{name: "bindfs", below: "backing", makes: `mkdir -p "$V/backing"`, mounts: `bindfs "$V/backing" "$AT"`},
	{name: "fuse-overlayfs", below: "lower", makes: `mkdir -p "$V/lower" "$V/upper" "$V/work"`,
		mounts: `fuse-overlayfs -o "lowerdir=$V/lower,upperdir=$V/upper,workdir=$V/work" "$AT"`},
	{name: "go-fuse", below: "backing", makes: `mkdir -p "$V/backing"`, mounts: `
		setsid "$WORKER" loopback "$V/backing" "$AT" </dev/null >/dev/null 2>&1 &
		until mountpoint -q "$AT"; do sleep 0.02; done`},
}

// volumes are the volumes of all kinds, in a mount namespace from which the daemon gets its mounts.
type volumes struct {
	t       testing.TB
	base    string // the volumes' folder
	folder  string // has a mount point for each kind
	keeper  *exec.Cmd
	kinds   []volumeKind
	mounted map[string]string // kind: volume
}

// names of the files of each volume that clients do not write to, and the directories of files.
var volumeFiles = []string{"read", "d/e/read", "removed"}

// makeVolumes makes all volumes, and mounts A of each kind. Clients write to the files named written.
func makeVolumes(t testing.TB, folder string, kinds []volumeKind, written []string) *volumes {
	t.Helper()
	v := &volumes{t: t, base: filepath.Join(t.TempDir(), "volumes"), folder: folder, kinds: kinds, mounted: map[string]string{}}
	v.keeper = exec.Command("unshare", "-m", "--propagation", "private", "sh", "-ec", `
		mount --make-rshared /
		mountpoint -q /sys/fs/fuse/connections || mount -t fusectl connections /sys/fs/fuse/connections
		echo kept
		exec cat`)
	input, err := v.keeper.StdinPipe() // ends the keeper if the test ends in any way
	if err != nil {
		t.Fatal(err)
	}
	output, err := v.keeper.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := v.keeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, k := range kinds {
			exec.Command("nsenter", v.inside("sh", "-c", unmountAll(v.at(k.name)))...).Run()
		}
		input.Close()
		v.keeper.Wait()
	})
	if _, err := io.ReadFull(output, make([]byte, len("kept\n"))); err != nil {
		t.Fatalf("the keeper of the mounts: %v", err)
	}
	var all strings.Builder
	for _, k := range kinds {
		fmt.Fprintf(&all, "mkdir -p %s %s\n", filepath.Dir(v.volume(k.name, "A")), v.at(k.name))
		for _, name := range []string{"A", "B", "C"} {
			all.WriteString(v.create(&k, name, written))
		}
		all.WriteString(v.mount(&k, "A"))
	}
	v.run(all.String())
	v.filled(nil, written)
	return v
}

// create returns a script that makes a volume with files.
func (v *volumes) create(k *volumeKind, name string, written []string) string {
	fill := fmt.Sprintf("%s fill %s %s ", build(v.t, "test/kernel/worker"), k.name, name)
	files := " " + strings.Join(append(volumeFiles, written...), " ") + "\n"
	script := v.script(k, name, k.makes)
	switch {
	case k.fleeting:
	case k.below != "":
		script += fill + filepath.Join(v.volume(k.name, name), k.below) + files
	default:
		script += v.mount(k, name)
		if k.name == "btrfs" {
			script += "[ -e $AT/d ] || btrfs -q subvolume create $AT/d\n"
		}
		script += fill + "$AT" + files + "umount $AT\n"
	}
	return script
}

func (v *volumes) at(kind string) string { return filepath.Join(v.folder, kind) }

// inMounts returns a path by which this process sees a path in the keeper's mounts.
func (v *volumes) inMounts(path string) string {
	return filepath.Join("/proc", fmt.Sprint(v.keeper.Process.Pid), "root", path)
}

func (v *volumes) volume(kind, name string) string { return filepath.Join(v.base, kind, name) }

// mount returns a script that mounts a volume, which is from then on the one that is mounted.
func (v *volumes) mount(k *volumeKind, name string) string {
	v.mounted[k.name] = name
	return v.script(k, name, k.mounts)
}

func (v *volumes) script(k *volumeKind, name, text string) string {
	return fmt.Sprintf("VOLUME=%s V=%s A=%s AT=%s WORKER=%s\n%s\n", name, v.volume(k.name, name), v.volume(k.name, "A"),
		v.at(k.name), build(v.t, "test/kernel/worker"), text)
}

// run runs a script in the keeper's mounts.
func (v *volumes) run(text string) {
	v.t.Helper()
	if out, err := exec.Command("nsenter", v.inside("sh", "-ec", text)...).CombinedOutput(); err != nil {
		v.t.Fatalf("%s: %v\n%s", text, err, out)
	}
}

// unmountAll returns a script that unmounts all that is mounted at a mount point, also if it is in use.
func unmountAll(at string) string { return "while umount -l " + at + " 2>/dev/null; do :; done\n" }

func (v *volumes) inside(command ...string) []string {
	return append([]string{fmt.Sprintf("--mount=/proc/%d/ns/mnt", v.keeper.Process.Pid), "--"}, command...)
}

// command returns a command that runs a program with mounts of its own, which follow the keeper's: as a service
// manager does.
func (v *volumes) command(program ...string) []string {
	return append([]string{"nsenter"}, v.inside(append([]string{"unshare", "-m", "--propagation", "slave",
		"sh", "-c", `mount -t tmpfs run /run && exec "$@"`, "sh"}, program...)...)...)
}

// check fails the test unless the files that are mounted are those of their volumes.
func (v *volumes) check(when string, written []string) {
	v.t.Helper()
	for _, k := range v.kinds {
		for _, path := range append(volumeFiles[:len(volumeFiles):len(volumeFiles)], written...) {
			b, err := os.ReadFile(v.inMounts(filepath.Join(v.at(k.name), path)))
			if err == nil {
				err = filemark.Check(b, k.name, v.mounted[k.name], path)
			}
			if err != nil {
				v.t.Errorf("%s, on the server: %v", when, err)
			}
		}
	}
}

// serveVolumes starts the daemon with an export that has all volumes below it.
func serveVolumes(t testing.TB, kinds []volumeKind, written []string, flags ...string) (*server, *volumes) {
	t.Helper()
	base := t.TempDir()
	folder := filepath.Join(base, "export")
	for _, dir := range []string{base, folder} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := &server{t: t, network: lab.NewNetwork(t), folder: folder, env: []string{"EXPORT=/work"}}
	v := makeVolumes(t, folder, kinds, written)
	serve := append([]string{daemon(t), "serve", "--state-dir", filepath.Join(base, "state"),
		"--rdma", fmt.Sprintf("%s:%d", lab.Host, lab.PortRDMA), "--tcp", fmt.Sprintf("%s:%d", lab.Host, lab.PortTCP),
		"--export", folder + ":/work,rw,no_root_squash,sync,crossmnt"}, flags...)
	for _, k := range kinds {
		if k.alone {
			serve = append(serve, "--export", v.at(k.name)+":/"+k.name+",rw,no_root_squash,sync")
		}
	}
	s.daemon = lab.StartServer(t, s.network, "nfsrdmad", v.command(serve...), lab.PortRDMA, lab.PortTCP)
	return s, v
}

// now returns the kind and the volume of each file system that is mounted, a line for each.
func (v *volumes) now() string {
	var b strings.Builder
	for _, k := range v.kinds {
		fmt.Fprintln(&b, k.name, v.mounted[k.name])
	}
	return b.String()
}
