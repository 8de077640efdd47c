package lab

// Kernel is the name of a kernel that a guest can run.
type Kernel string

// The kernels of the lab.
const (
	UserMode  Kernel = "uml"  // Linux 6.12 as a user-mode process
	Stock6_1  Kernel = "6.1"  // Debian 12's own kernel, under QEMU's emulation
	Stock6_12 Kernel = "6.12" // the kernel of bookworm-backports, under QEMU's emulation
)

// Ready reports whether the kernel has been set up with the lab's present ingredients (see
// artifact).
func (k Kernel) Ready() bool {
	if k == UserMode {
		return userModeOverride() != "" || userModeArtifact().ready()
	}
	return stockArtifact(k).ready()
}

func (k Kernel) build() error {
	if k == UserMode {
		return buildUserMode()
	}
	return buildStock(k)
}

func (k Kernel) effort() string {
	if k == UserMode {
		return "compiles Linux: some six minutes on two processors"
	}
	return "one to two minutes"
}
