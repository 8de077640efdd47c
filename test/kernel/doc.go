// Package kernel tests the daemon with the NFS client of Linux kernels: see package lab beside it for how they boot. The
// tests stand behind the build tag kernel, the comparison with other servers behind bench; what they need is brought by
// go run ./test/kernel/setup.
//
// Each test has a script of its own in scripts, which a guest runs. NFSRDMAD_LAB_SERVER=knfsd lets the same tests run
// against Linux's own server in a guest, which tells a fault of the lab from one of the daemon.
package kernel
