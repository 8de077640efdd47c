package client

import (
	"os"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// Self is the AUTH_SYS credential of this process, with the first groups where
// it has more than fit.
func Self() rpc.AuthBytes { return Identity(uint32(os.Geteuid()), uint32(os.Getegid())) }

// Identity is the AUTH_SYS credential of a user, with this process's groups
// where it is its own.
func Identity(uid, gid uint32) rpc.AuthBytes {
	var groups []uint32
	if uid == uint32(os.Geteuid()) {
		all, _ := os.Getgroups() // without them it works as well
		for _, g := range all[:min(len(all), rpc.MaxGroups)] {
			groups = append(groups, uint32(g))
		}
	}
	name, _ := os.Hostname() // nobody looks at it
	cred, err := rpc.AuthSysCred(uint32(os.Getpid()), name[:min(len(name), rpc.MaxMachineName)], uid, gid, groups)
	if err != nil {
		panic("client: " + err.Error()) // the bounds are kept above
	}
	return cred
}
