package lab

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// sharedFolder is the mount point, in a guest, of the folder that the guest shares with the test.
// The guest's init program mounts it, because the boot script is in it.
const sharedFolder = "/nfsrdmad"

//go:embed guest_systemd.sh
var guestSystemd string

// scripts returns the scripts that boot the guest after its root is mounted, by their names. "boot"
// completes the set-up. "rest" runs the test's script and powers off.
func (g *Guest) scripts(args []string) map[string]string {
	boot := g.bootScript()
	if g.options.Systemd == "" {
		boot += ". ./rest\n"
	} else {
		boot += systemdRoot + "DEBS=" + quote(g.options.Systemd.debs()) + "\n" + guestSystemd
	}
	rest := fmt.Sprintf("( set --%s; . ./prelude; . ./script ) </dev/null\necho $? >%s/status; sync\n", quoted(args), sharedFolder)
	return map[string]string{"boot": boot, "rest": rest + powerOff(g.options.Kernel)}
}

func (g *Guest) bootScript() string {
	var b strings.Builder
	line := func(format string, values ...any) { fmt.Fprintf(&b, format+"\n", values...) }
	line("export PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C")
	line("export KERNEL=%s SERVER=%s ADDRESS=%s SHARED=%s", g.options.Kernel, Host, g.Address(), sharedFolder)
	for _, variable := range g.options.Env {
		line("export %s", quote(variable))
	}
	line("for d in /run /dev/shm; do mkdir -p $d; mount -t tmpfs memory $d; done")
	line("mkdir -p /dev/pts; mount -t devpts terminals /dev/pts")
	line("ln -sfn /proc/self/fd /dev/fd; for n in 0:stdin 1:stdout 2:stderr; do ln -sfn /dev/fd/${n%%:*} /dev/${n#*:}; done")
	for i, folder := range g.options.Writable {
		line("mkdir -p %s", quote(folder))
		if g.options.Kernel.userMode() {
			line("mount -t hostfs -o %[1]s machine %[1]s", quote(folder))
		} else {
			line("mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000 writable%d %s", i, quote(folder))
		}
	}
	if !g.options.Kernel.userMode() {
		line("mkdir -p /lib/modules; mount --bind %s /lib/modules", quote(stockFile(g.options.Kernel, "modules")))
	}
	line("hostname guest%d; ip link set lo up", g.options.Address)
	line("for d in /sys/class/net/*/device; do [ -e \"$d\" ] && NIC=$(basename ${d%%/device}); done")
	line("[ -n \"$NIC\" ] || for d in /sys/class/net/[ev]*; do NIC=$(basename $d); done")
	line("export NIC; ip addr add $ADDRESS/24 dev $NIC; ip link set $NIC mtu %d up", g.network.mtu)
	line("cd %s", sharedFolder)
	return b.String()
}

func powerOff(k Kernel) string {
	if k.userMode() {
		return "exec busybox poweroff -f\n"
	}
	return "echo o >/proc/sysrq-trigger; while :; do :; done\n"
}

// userModeInit returns the init program of a user-mode kernel. The guest's root is this machine's
// root, read-only, below an overlay.
func (g *Guest) userModeInit() string {
	return fmt.Sprintf(`#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t tmpfs memory /mnt
/bin/busybox mkdir /mnt/changes /mnt/work /mnt/root
/bin/busybox mount -t overlay -o lowerdir=/,upperdir=/mnt/changes,workdir=/mnt/work overlay /mnt/root || exec /bin/busybox poweroff -f
for f in proc:proc sysfs:sys devtmpfs:dev; do /bin/busybox mount -t ${f%%:*} ${f%%:*} /mnt/root/${f#*:}; done
/bin/busybox mkdir -p /mnt/root%[1]s
/bin/busybox mount -t hostfs -o %[2]s machine /mnt/root%[1]s
exec /bin/busybox chroot /mnt/root /bin/bash %[1]s/boot
`, sharedFolder, quote(g.folder))
}

// userModeInterface returns the argument that gives the guest the interface vec0. It names the
// MTU only if that is larger than Ethernet's; the boot script sets the MTU in any case.
func (g *Guest) userModeInterface() string {
	vec := fmt.Sprintf("vec0:transport=tap,ifname=%s,mac=%s,depth=64,gro=1", tap(g.options.Address), g.hardware())
	if g.network.mtu > ethernetMTU {
		vec += fmt.Sprintf(",mtu=%d", g.network.mtu)
	}
	return vec
}

func (g *Guest) userModeCommand() *exec.Cmd {
	source := g.options.Kernel.source()
	cmd := g.network.Command(source.program(), append([]string{
		fmt.Sprintf("mem=%dM", g.options.Memory), "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro",
		"init=" + g.folder + "/init", "con=null", "con0=null,fd:1", "quiet", "panic=-1",
		g.userModeInterface(),
	}, source.boot...)...)
	// The kernel keeps its memory in a file in TMPDIR, and its sockets and process id below HOME.
	cmd.Env = append(os.Environ(), "TMPDIR=/dev/shm", "HOME="+g.folder)
	return cmd
}

func (g *Guest) stockCommand() *exec.Cmd {
	k := g.options.Kernel
	args := []string{
		// no_timer_check: on a busy machine qemu does not deliver the timer's interrupts as fast as
		// the kernel expects when it checks them at boot, and the kernel would panic.
		//
		// One thread of qemu runs all processors of the guest. With one thread for each
		// processor, a guest's kernel once died at boot of an int3 instruction that its code does
		// not have. The cause is a guess: a processor of qemu 7.2 executed code that another
		// processor had just overwritten, as Linux does with its own code.
		"-accel", "tcg,thread=single", "-cpu", "max", "-smp", fmt.Sprint(g.options.CPUs), "-m", fmt.Sprint(g.options.Memory),
		"-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot", "-rtc", "base=utc",
		"-kernel", stockFile(k, "vmlinuz"), "-initrd", stockFile(k, "initrd"), "-append", "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check",
		"-netdev", "tap,id=net,script=no,downscript=no,ifname=" + tap(g.options.Address),
		"-device", "virtio-net-pci,netdev=net,romfile=,mac=" + g.hardware(),
		"-virtfs", "local,path=/,mount_tag=machine,security_model=none,readonly=on,multidevs=remap",
	}
	share := func(folder, tag string) {
		args = append(args, "-virtfs", fmt.Sprintf("local,path=%s,mount_tag=%s,security_model=none,multidevs=remap", folder, tag))
	}
	share(g.folder, "shared")
	for i, folder := range g.options.Writable {
		share(folder, fmt.Sprintf("writable%d", i))
	}
	return g.network.Command("qemu-system-x86_64", args...)
}

// quote returns any text as one word of bash.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

func quoted(words []string) string {
	var b strings.Builder
	for _, word := range words {
		b.WriteString(" " + quote(word))
	}
	return b.String()
}

// hardware returns the guest's hardware address. It is the same at each boot, because the other
// hosts in the network continue to send to the address that they have cached.
func (g *Guest) hardware() string { return fmt.Sprintf("02:00:0a:00:02:%02x", g.options.Address) }
