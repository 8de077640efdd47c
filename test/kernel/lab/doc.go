// Package lab boots Linux kernels that speak NFS over RDMA, on a machine that has neither RDMA
// hardware nor kernel modules, and gives tests and benchmarks a network with guests and daemons.
//
// A Guest has one of two kinds of kernel. A user-mode kernel (Linux 6.12, built once from
// Debian's source and kept in a cache) boots in a second and runs at near-native speed on one
// processor. Debian's stock kernels 6.1 and 6.12 run unchanged under QEMU's emulation, ten to
// thirty times slower. Both use this machine's root, read-only under an overlay in memory, so
// every program that is installed here runs there too; the guest's writes vanish at its end,
// except those to the folders that were named as writable. siw, the kernel's software iWARP, is
// the RDMA device of both.
//
// A Network is a network namespace with a bridge: this machine is 10.0.2.2 in it, each guest
// 10.0.2.N on a tap of its own. Daemons run on this machine inside that namespace. All processes
// in a Network end with it; the lab ends them by process id.
//
// The package does not know the subject of the tests. It needs root, /dev/net/tun and the
// packages and kernels that Setup installs.
package lab
