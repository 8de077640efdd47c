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
	names    *pseudo.FS
	counters counters
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
var procedures = [...]procedure{
	wire.ProcNull:        {gateNone, func(*request) rpc.Outcome { return rpc.Done }},
	wire.ProcGetattr:     {gateStat, answered((*request).getattr)},
	wire.ProcSetattr:     {gateOwn, answered((*request).setattr)},
	wire.ProcLookup:      {gateNames, answered((*request).lookup)},
	wire.ProcAccess:      {gateStat, answered((*request).access)},
	wire.ProcReadlink:    {gateStat, answered((*request).readlink)},
	wire.ProcRead:        {gateOwn, answered((*request).read)},
	wire.ProcWrite:       {gateOwn, answered((*request).write)},
	wire.ProcCreate:      {gateOwn, answered((*request).create)},
	wire.ProcMkdir:       {gateOwn, answered((*request).mkdir)},
	wire.ProcSymlink:     {gateOwn, answered((*request).symlink)},
	wire.ProcMknod:       {gateOwn, answered((*request).mknod)},
	wire.ProcRemove:      {gateOwn, answered((*request).remove)},
	wire.ProcRmdir:       {gateOwn, answered((*request).rmdir)},
	wire.ProcRename:      {gateOwn, answered((*request).rename)},
	wire.ProcLink:        {gateOwn, answered((*request).link)},
	wire.ProcReaddir:     {gateNames, answered((*request).readdir)},
	wire.ProcReaddirPlus: {gateNames, answered((*request).readdirPlus)},
	wire.ProcFsstat:      {gateStat, answered((*request).fsstat)},
	wire.ProcFsinfo:      {gateStat, answered((*request).fsinfo)},
	wire.ProcPathconf:    {gateStat, answered((*request).pathconf)},
	wire.ProcCommit:      {gateCommit, answered((*request).commit)},
}
