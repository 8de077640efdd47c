// Package kernel tests the daemon with the NFS client of Linux kernels, which package lab boots.
// The tests have the build tag kernel; the comparison with other servers has the tag bench. `go
// run ./test/kernel/setup` installs the packages, kernels and systemd that the tests need.
//
// A guest runs a script from the folder scripts for each test. With NFSRDMAD_LAB_SERVER=knfsd,
// the same tests run against Linux's own server in a guest. If a test fails there too, the fault
// is in the lab and not in the daemon.
package kernel
