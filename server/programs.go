package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/logline"
	"github.com/nfsrdmad/nfsrdmad/server/statedir"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs40"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs41"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nsmwire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state/records"
	"github.com/nfsrdmad/nfsrdmad/vfs"
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

func (p *program) served(c *config.Config) bool { return slices.ContainsFunc(p.versions, c.Serves) }

// programs is the registry of programs.
var programs = []program{
	{"nfs", nfs3wire.Program, nfs3wire.Version, []string{"tcp", "rdma"}, config.NFSVersions[:1],
		func(s *Server) rpc.Program {
			s.nfs3 = nfs3.New(s.exports.Table)
			s.nfs3.Ask(s.clients)
			return s.nfs3
		}},
	{"nfs", nfs4wire.Program, nfs4wire.Version, []string{"tcp", "rdma"}, config.NFSVersions[1:], (*Server).nfs4Program},
	// MOUNT is registered for TCP only (RFC 8267 §5.1), but served over both transports.
	{"mount", mount3wire.Program, mount3wire.Version, []string{"tcp"}, config.NFSVersions[:1],
		func(s *Server) rpc.Program {
			s.mount = mount3.New(s.exports.Table)
			return s.mount
		}},
	// Clients lock over TCP, also those that have mounted over RDMA, or over UDP (datagrams).
	{"nlm", nlm4wire.Program, nlm4wire.Version, []string{"tcp", "udp"}, config.NFSVersions[:1], (*Server).nlmProgram},
	{"nlm", nlm4wire.Program, 1, []string{"tcp", "udp"}, config.NFSVersions[:1], func(s *Server) rpc.Program { return s.nlm.Older()[0] }},
	{"nlm", nlm4wire.Program, 3, []string{"tcp", "udp"}, config.NFSVersions[:1], func(s *Server) rpc.Program { return s.nlm.Older()[1] }},
	{"nsm", nsmwire.Program, nsmwire.Version, []string{"tcp", "udp"}, config.NFSVersions[:1],
		func(s *Server) rpc.Program {
			s.nsm = nlm.NewMonitor(s.nlm)
			return s.nsm
		}},
}

// locks reports whether the program serves the locks of NFSv3. They have an entry of their own in rpcbind, which other
// programs of this machine may have taken.
func (p *program) locks() bool { return p.number == nlm4wire.Program || p.number == nsmwire.Program }

// programName returns a program's name in logs and metrics, or its number if it has none.
func programName(number uint32) string {
	for i := range programs {
		if programs[i].number == number {
			return programs[i].name
		}
	}
	return fmt.Sprint(number)
}

// openClients makes the state manager of the clients that open and lock files, and opens the file of their records.
func (s *Server) openClients(key [export.KeySize]byte) (err error) {
	s.identity = serverIdentity(key)
	cfg := state.Config{Lease: time.Duration(s.cfg.NFS.LeaseTime), Grace: time.Duration(s.cfg.NFS.GraceTime), Memory: int(s.cfg.Memory.State) * 3 / 8,
		Event: s.clientEvent}
	if s.state != nil {
		file := filepath.Join(s.state.path, statedir.Records)
		var damage *records.Damaged
		if s.records, damage, err = records.OpenAnyhow(file); err != nil {
			return recordsFault(file, err)
		}
		if damage != nil {
			s.log.Error(logline.RecordsDamaged,
				zap.String("file", file), zap.String("set aside as", file+records.Aside), zap.String("damage", damage.Why))
		}
		cfg.Records = &toldRecords{Records: s.records, log: s.log}
	}
	if s.clients, err = state.New(cfg); err != nil {
		return recordsFault(filepath.Join(s.cfg.StateDir, statedir.Records), err)
	}
	if s.filesystems != nil {
		s.filesystems.Revoke = func(fs vfs.FileSystem) { s.clients.Revoke(state.DomainOf(fs)) }
		s.filesystems.RevokeExport = func(e *export.Export) { s.clients.RevokeExport(state.DomainOf(e.FS), e.ID) }
	}
	return nil
}

func recordsFault(file string, err error) error {
	if d, ok := errors.AsType[*records.Damaged](err); ok {
		return fmt.Errorf("%s, which keeps the names of NFSv4 clients, cannot be used: %s. Without the file, clients lose what they hold open and locked at this start", file, d.Reason())
	}
	return fmt.Errorf("%s, which keeps the names of NFSv4 clients, cannot be read and written: %w; see that its directory can be written and has room, and that no other process has the file open, or name another directory with --state-dir, and clients lose what they hold open and locked at this start", file, config.Cause(err))
}

// toldRecords wraps Records. It logs when a write fails, and when writes succeed again. While they
// fail, clients have to wait, and no other log line says why.
type toldRecords struct {
	state.Records
	log  *zap.Logger
	last time.Time // time of the last line; zero: the last write succeeded
}

// tellAgain is the shortest time between two log lines about failing writes.
const tellAgain = time.Minute

func (r *toldRecords) Put(more []state.Record) error    { return r.tell(r.Records.Put(more)) }
func (r *toldRecords) Remove(gone []state.Record) error { return r.tell(r.Records.Remove(gone)) }

// tell logs the result of a write, err, if it is a failure, but at most once per tellAgain. It also
// logs the first success after a logged failure. It returns err. Only one goroutine at a time may
// call it, as for all methods of Records.
func (r *toldRecords) tell(err error) error {
	switch {
	case err == nil && !r.last.IsZero():
		r.log.Info(logline.RecordsWritten)
		r.last = time.Time{}
	case err != nil && time.Since(r.last) > tellAgain:
		r.log.Error(logline.RecordsUnwritten,
			zap.String("file", statedir.Records), zap.Error(config.Cause(err)))
		r.last = time.Now()
	}
	return err
}

// closeClients ends the goroutines that remove the state of expired clients, and the goroutines that
// make callbacks. It does not wait for calls that hang.
func (s *Server) closeClients(context.Context) {
	if s.nfs40 != nil {
		s.nfs40.Close()
	}
	if s.nlm != nil {
		s.nlm.Close()
	}
	if s.clients != nil {
		s.clients.Close()
	}
}

// closeRecords closes the file that records the clients. It may be called only when the server no
// longer grants opens and locks, because each needs a record of its client.
func (s *Server) closeRecords() {
	if s.records != nil {
		if err := s.records.Close(); err != nil {
			s.log.Error(logline.RecordsUnclosed, zap.Error(err))
		}
	}
}

// serverIdentity returns a value that identifies this server, also after restarts. A client that
// reaches it at two addresses recognizes one server (RFC 8881 §2.10.5). It is a hash of the key
// that seals handles, and does not reveal the key.
func serverIdentity(key [export.KeySize]byte) []byte {
	sum := sha256.Sum256(append([]byte("nfsrdmad server identity "), key[:]...))
	return sum[:16]
}

func (s *Server) nfs4Program() rpc.Program {
	cfg := nfs4.Config{
		Exports: s.exports.Table, State: s.clients,
		Identity: s.users, SendNames: s.cfg.NFS.Owners == config.OwnersNames,
	}
	if s.cfg.Serves("4.0") {
		machine, _ := os.Hostname()
		s.nfs40 = nfs40.New(nfs40.Config{
			State: s.clients, Dial: tcp.DialConfig{}.Dialer(), Connections: divide(descriptorLimit(), 0).callbacks, Machine: machine[:min(len(machine), rpc.MaxMachineName)],
			Protect: s.protectCallbacks,
		})
		cfg.Minors[0] = s.nfs40
	}
	later := nfs41.New(nfs41.Config{State: s.clients, Exports: s.exports.Table, Owner: s.identity, Scope: s.identity, CacheMemory: int64(s.cfg.Memory.State) * 3 / 8,
		BackContext: s.backContext})
	for minor, version := range config.NFSVersions[2:] {
		if s.cfg.Serves(version) {
			cfg.Minors[minor+1] = later
		}
	}
	s.nfs4 = nfs4.New(cfg)
	return s.nfs4
}

// nlmProgram makes the program of NFSv3's locks. It calls clients back from the address that they have called.
func (s *Server) nlmProgram() rpc.Program {
	machine, _ := os.Hostname()
	s.nlm = nlm.New(nlm.Config{
		Exports: s.exports.Table, State: s.clients, Machine: machine,
		Dial: func(from netip.Addr) rpc.Dialer {
			d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from.Unmap(), 0))}
			return tcp.DialConfig{Dial: d.DialContext}.Dialer()
		},
		Send: func(from, to netip.AddrPort, message []byte) {
			if s.datagrams != nil { // the server opens them later
				s.datagrams.send(from, to, message)
			}
		},
	})
	return s.nlm
}
