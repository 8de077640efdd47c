package server

import (
	"fmt"
	"slices"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A program is an entry of the registry: one version of an RPC program.
type program struct {
	// name is the program's label in metrics and log lines.
	name            string
	number, version uint32
	// over lists the transports for which the program is registered with rpcbind.
	over []string
	// versions lists the versions of NFS that need the program. The program is served if one of
	// them is.
	versions []string
	open     func(*Server) rpc.Program
}

// served reports whether the configuration needs the program.
func (p *program) served(c *config.Config) bool { return slices.ContainsFunc(p.versions, c.Serves) }

// programs is the registry of programs.
var programs = []program{
	{"nfs", nfs3wire.Program, nfs3wire.Version, []string{"tcp", "rdma"}, config.NFSVersions[:1],
		func(s *Server) rpc.Program {
			nfs := nfs3.New(s.exports.Table)
			nfs.Ask(s.clients)
			return nfs
		}},
	{"nfs", nfs4wire.Program, nfs4wire.Version, []string{"tcp", "rdma"}, config.NFSVersions[1:], (*Server).nfs4Program},
	// MOUNT is registered for TCP only (RFC 8267 §5.1), but served over both transports.
	{"mount", mount3wire.Program, mount3wire.Version, []string{"tcp"}, config.NFSVersions[:1],
		func(s *Server) rpc.Program { return mount3.New(s.exports.Table) }},
}

// programName returns a program's name in logs and metrics, or its number if it has none.
func programName(number uint32) string {
	for i := range programs {
		if programs[i].number == number {
			return programs[i].name
		}
	}
	return fmt.Sprint(number)
}
