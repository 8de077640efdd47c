package nfs3

import (
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/pseudo"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// A Program serves NFS version 3.
type Program struct {
	nfs.Service
	exports  *export.Table
	state    *state.Manager // if nil, every access is allowed
	requests sync.Pool
	// names is the tree of names, which leads from an export to the mounts below it. If it is
	// nil, no call leads from an export into a mount.
	names *pseudo.FS
}

// New returns a program that serves exports.
func New(exports *export.Table) *Program {
	return &Program{
		Service:  nfs.Service{Program: wire.Program, Version: wire.Version, Procedures: &nfs.Binding3},
		exports:  exports,
		requests: sync.Pool{New: func() any { return new(request) }},
		names:    pseudo.Of(exports),
	}
}

// Ask makes the program call m.Ask before each access to a file, because an NFSv4 client may have opened
// the file with a deny mode (RFC 8881 §9.7). It must be called before the program serves calls.
func (p *Program) Ask(m *state.Manager) { p.state = m }

// procedures holds the procedures by number.
var procedures = [...]func(*request) rpc.Outcome{
	wire.ProcNull:        func(*request) rpc.Outcome { return rpc.Done },
	wire.ProcGetattr:     answered((*request).getattr),
	wire.ProcSetattr:     answered((*request).setattr),
	wire.ProcLookup:      answered((*request).lookup),
	wire.ProcAccess:      answered((*request).access),
	wire.ProcReadlink:    answered((*request).readlink),
	wire.ProcRead:        answered((*request).read),
	wire.ProcWrite:       answered((*request).write),
	wire.ProcCreate:      answered((*request).create),
	wire.ProcMkdir:       answered((*request).mkdir),
	wire.ProcSymlink:     answered((*request).symlink),
	wire.ProcMknod:       answered((*request).mknod),
	wire.ProcRemove:      answered((*request).remove),
	wire.ProcRmdir:       answered((*request).rmdir),
	wire.ProcRename:      answered((*request).rename),
	wire.ProcLink:        answered((*request).link),
	wire.ProcReaddir:     answered((*request).readdir),
	wire.ProcReaddirPlus: answered((*request).readdirPlus),
	wire.ProcFsstat:      answered((*request).fsstat),
	wire.ProcFsinfo:      answered((*request).fsinfo),
	wire.ProcPathconf:    answered((*request).pathconf),
	wire.ProcCommit:      answered((*request).commit),
}
