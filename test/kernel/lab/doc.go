// Package lab boots Linux kernels that use NFS over RDMA, on a machine that needs neither RDMA
// hardware nor kernel modules. It gives tests and benchmarks a network with guests and daemons.
//
// A Guest runs one of two kinds of kernel. A user-mode kernel (Linux 6.12, built once from
// Debian's source and cached) boots in a second and runs at near-native speed on one processor.
// Debian's stock kernels 6.1 and 6.12 run unchanged under QEMU's emulation, ten to thirty times
// slower. Both use this machine's root, read-only below an overlay in memory, so every program
// that is installed here runs there too. What a guest writes is lost when it ends, except in the
// folders that Options.Writable names. siw, the kernel's software iWARP, is the RDMA device of
// both.
//
// A Network is a network namespace with a bridge. In it this machine has the address 10.0.2.2,
// and each guest has an address 10.0.2.N on its own tap. Daemons run on this machine inside that
// namespace. All processes in a Network end with it; the lab kills them by process id.
//
// With Options.Systemd, systemd is process 1 of a stock kernel's guest, and runs the test's script as
// a service.
//
// A Machine is systemd as process 1 of namespaces of its own, on this machine's kernel and root. It
// tests the unit file with every restriction that systemd and the kernel really enforce.
//
// The package knows nothing about what the tests test. It needs root, /dev/net/tun and the
// packages, kernels and systemd that Setup installs.
package lab
