//go:build kernel

package kernel

import (
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// TestFioVerify mixes buffered and direct, sequential and random I/O for 30 s, and verifies every
// block that it reads.
func TestFioVerify(t *testing.T) {
	overRDMA(t, func(t *testing.T, transport string) {
		serve(t, "sync").run(lab.Options{Limit: 4 * time.Minute}, "fio_verify", transport)
	})
}

// TestStress runs the file-system stressors of stress-ng with their own checks.
func TestStress(t *testing.T) {
	overRDMA(t, func(t *testing.T, transport string) {
		serve(t, "async").run(lab.Options{Limit: 6 * time.Minute}, "stress", transport)
	})
}

// TestKernelTree unpacks a part of Linux's source, lists it, compiles some files of it and
// removes it.
func TestKernelTree(t *testing.T) {
	overRDMA(t, func(t *testing.T, transport string) {
		serve(t, "async").run(lab.Options{Limit: 25 * time.Minute, Env: []string{"TREE=" + lab.KernelTree()}}, "kernel_tree", transport)
	})
}

// TestStockKernels mounts and works with Debian's own kernels, unchanged, because users run these
// kernels.
func TestStockKernels(t *testing.T) {
	t.Parallel()
	kernels, hows := []lab.Kernel{lab.Stock6_12}, []string{"rdma", "tcp"}
	if everything() {
		kernels = append(kernels, lab.Stock6_1)
		for _, version := range versions {
			hows = append(hows, "rdma/"+version, "tcp/"+version)
		}
	}
	for _, kernel := range kernels {
		t.Run(string(kernel), func(t *testing.T) {
			t.Parallel()
			serve(t, "sync").run(lab.Options{Kernel: kernel, Limit: time.Duration(len(hows)) * 4 * time.Minute}, "stock", hows...)
		})
	}
}
