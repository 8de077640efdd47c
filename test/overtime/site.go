package overtime

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs40"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/pseudo"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// A site is a server of NFSv3 and NFSv4.0 over a disk, without transports.
type site struct {
	rpc     *rpc.Server
	pool    *mem.Pool
	disk    *disk
	objects objects
	clients *state.Manager

	exports *export.Table
	export  *export.Export
}

// The numbers of objects of each kind in a site. The directories have numbers from 0 on; those
// with odd numbers contain only directories.
const (
	blocks      = 2
	sizes       = 1
	directories = 2
)

func newSite(slow func() time.Duration, cfg rpc.Config) (*site, error) {
	fs := memfs.New(memfs.Options{RootMode: 0o777})
	s := &site{disk: newDisk(fs, slow)}
	s.export = &export.Export{Name: "/x", FS: s.disk, Options: export.Options{Squash: export.NoSquash}}
	s.exports = export.NewTable([export.KeySize]byte{1})
	if err := s.exports.Replace([]*export.Export{s.export}); err != nil {
		return nil, err
	}
	pseudo.Attach(s.exports)
	op := &vfs.Op{Cred: &vfs.Cred{}}
	make := func(name string, directory bool) ([]byte, error) {
		var o vfs.Object
		var err error
		if directory {
			o, _, err = fs.Mkdir(op, fs.Root(), []byte(name), &vfs.SetAttr{SetMode: true, Mode: 0o777})
		} else {
			o, _, err = fs.Create(op, fs.Root(), []byte(name), &vfs.CreateHow{Attr: vfs.SetAttr{SetMode: true, Mode: 0o666}})
		}
		return s.exports.Seal(nil, s.export, o.Handle), err
	}
	s.objects.root = s.exports.Seal(nil, s.export, fs.Root())
	var err error
	if s.objects.blocks, err = make("blocks", false); err != nil {
		return nil, err
	}
	if s.objects.target, err = make("target", false); err != nil {
		return nil, err
	}
	for i := range sizes {
		h, err := make(fmt.Sprint("size", i), false)
		if err != nil {
			return nil, err
		}
		s.objects.sizes = append(s.objects.sizes, h)
	}
	for i := range directories {
		h, err := make(fmt.Sprint("directory", i), true)
		if err != nil {
			return nil, err
		}
		s.objects.directories = append(s.objects.directories, h)
	}
	if s.pool, err = mem.NewPool(mem.Config{Ceiling: 64 << 20}); err != nil {
		return nil, err
	}
	// The lease never ends during a run.
	if s.clients, err = state.New(state.Config{Lease: 1000 * time.Hour}); err != nil {
		return nil, err
	}
	cfg.Pool = s.pool
	s.rpc = rpc.NewServer(cfg)
	s.rpc.Register(nfs3.New(s.exports))
	s.rpc.Register(nfs4.New(nfs4.Config{Exports: s.exports, State: s.clients, Minors: [3]nfs4.Minor{nfs40.New(nfs40.Config{State: s.clients})}}))
	return s, nil
}

// close closes the server. The caller has closed the transports before.
func (s *site) close() {
	s.rpc.Close()
	s.clients.Close()
	s.pool.Close()
}

// server is the address of the server.
var server = netip.MustParseAddrPort("192.0.2.1:2049")
