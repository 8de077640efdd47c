// Package lab boots Linux kernels that speak NFS over RDMA, on a machine that has neither RDMA hardware nor kernel
// modules, and gives tests and benchmarks a network, guests and daemons to put into it.
//
// Two flavours stand behind one Guest. A user-mode kernel (Linux 6.12, built once from Debian's source and kept in a
// cache) is up in a second and runs at near-native speed on one processor. Debian's stock kernels 6.1 and 6.12 run
// unchanged under QEMU's emulation, ten to thirty times slower. Both take this machine's root, read-only under an overlay
// in memory, for their own, so every program that is installed here runs there too; what they write is gone afterwards
// but for the folders that were named as writable. siw, the kernel's software iWARP, is their RDMA device.
//
// A Network is a network namespace with a bridge: this machine is 10.0.2.2 in it, each guest 10.0.2.N on a tap of its own.
// Daemons run on this machine inside that namespace. Everything that a Network holds ends with it, by process id.
//
// The package does not know what is tested. It needs root, /dev/net/tun and the packages and kernels that Setup brings.
package lab
