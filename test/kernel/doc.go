// Package kernel tests the daemon with the NFS client of Linux kernels. Package lab beside it
// boots them. The tests have the build tag kernel, the comparison with other servers has bench;
// go run ./test/kernel/setup installs what they need.
//
// Each test has a script of its own in scripts, which a guest runs. With
// NFSRDMAD_LAB_SERVER=knfsd the same tests run against Linux's own server in a guest, which
// distinguishes a fault of the lab from a fault of the daemon.
package kernel
