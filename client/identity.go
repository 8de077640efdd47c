package client

import (
	"os"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// Self returns the AUTH_SYS credential of this process. If the process has more
// supplementary groups than AUTH_SYS can carry, the credential has the first ones.
func Self() rpc.AuthBytes { return Identity(uint32(os.Geteuid()), uint32(os.Getegid())) }

// Identity returns the AUTH_SYS credential of a user and group. If uid is this process's
// own, the credential has the process's supplementary groups as well.
func Identity(uid, gid uint32) rpc.AuthBytes {
	var groups []uint32
	if uid == uint32(os.Geteuid()) {
		all, _ := os.Getgroups() // the credential is valid without groups, too
		for _, g := range all[:min(len(all), rpc.MaxGroups)] {
			groups = append(groups, uint32(g))
		}
	}
	name, _ := os.Hostname() // servers ignore it
	cred, err := rpc.AuthSysCred(uint32(os.Getpid()), name[:min(len(name), rpc.MaxMachineName)], uid, gid, groups)
	if err != nil {
		panic("client: " + err.Error()) // this cannot happen: the code above keeps to the limits
	}
	return cred
}
