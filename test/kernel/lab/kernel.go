package lab

import "os"

// Kernel is the name of a kernel that a guest can run.
type Kernel string

// The kernels of the lab.
const (
	UserMode    Kernel = "uml"     // Linux 6.12 as a user-mode process
	UserMode7_2 Kernel = "uml-7.2" // Linux 7.2 as a user-mode process
	Stock6_1    Kernel = "6.1"     // Debian 12's own kernel, under QEMU's emulation
	Stock6_12   Kernel = "6.12"    // the kernel of bookworm-backports, under QEMU's emulation
)

// Usual returns the kernel of the guests whose test names none: UserMode, or the user-mode kernel
// that the environment variable NFSRDMAD_LAB_KERNEL names. Boot then skips tests with stock
// kernels.
func Usual() Kernel {
	if k := Kernel(os.Getenv("NFSRDMAD_LAB_KERNEL")); k.userMode() {
		return k
	}
	return UserMode
}

// userMode reports whether the kernel runs as a process of this machine.
func (k Kernel) userMode() bool { return k.source() != nil }

// source returns where the source of a user-mode kernel comes from, or nil if k is no such kernel.
func (k Kernel) source() *userModeSource {
	for i := range userModeSources {
		if userModeSources[i].kernel == k {
			return &userModeSources[i]
		}
	}
	return nil
}

// Ready reports whether the kernel has been set up with the lab's present ingredients (see
// artifact).
func (k Kernel) Ready() bool {
	if s := k.source(); s != nil {
		return s.override() != "" || s.artifact().ready()
	}
	return stockArtifact(k).ready()
}

func (k Kernel) build() error {
	if s := k.source(); s != nil {
		return s.build()
	}
	return buildStock(k)
}

func (k Kernel) effort() string {
	if s := k.source(); s != nil {
		return s.effort
	}
	return "one to two minutes"
}
