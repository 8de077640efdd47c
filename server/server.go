package server

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/internal/busypoll"
	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/exports"
	"github.com/nfsrdmad/nfsrdmad/server/logline"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/identity"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs40"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/pseudo"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state/records"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// housekeeping is how often the server returns unused memory to the system, and notes which connections have carried calls.
const housekeeping = 5 * time.Second

// A Server is a daemon that is set up and listens. Serve runs it.
type Server struct {
	cfg         *config.Config
	log         *zap.Logger
	state       *stateDir
	filesystems *exports.Filesystems // nil if a program provides the file systems (NewHandler)
	exports     *exports.Set
	offer       *exports.Offer // puts the exports of the configuration into exports; nil if a program provides them
	pool        *mem.Pool
	rpc         *rpc.Server
	gss         *gss.Server
	checkKeytab func()                     // logs a warning if an export needs the keytab, and its file is unfit
	initiators  *gss.Initiators            // make the RPCSEC_GSS contexts for callbacks
	principals  atomic.Pointer[principals] // the users of principals
	users       *identity.Map
	groups      *identity.Groups // looks up the groups of callers, for exports with manage_gids
	census      *census.Census
	polls       *busypoll.Group // decides which connections poll for their next call, and for how long
	clients     *state.Manager  // the state of NFSv4 clients
	records     *records.Store  // stores which clients hold state
	identity    []byte          // identifies this server to NFSv4 clients
	nfs4        *nfs4.Program   // nil if NFSv4 is not served
	nfs3        *nfs3.Program   // nil if NFSv3 is not served
	nfs40       *nfs40.Minor
	nlm         *nlm.Program // nil if NFSv3 is not served
	nsm         *nlm.Monitor
	datagrams   *datagrams      // nil if nothing is served over UDP
	mount       *mount3.Program // nil if NFSv3 is not served
	// lines writes lines about clients, names those about clients that have the same name, and
	// connectionLines those about connections.
	lines, names, connectionLines *clientLines

	transports   []*running
	registration *registration
	// answered has the addresses at which a call of this daemon to itself succeeded over an RDMA
	// device (see answers).
	answered   sync.Map
	durations  atomic.Pointer[durations] // nil until metrics or status page need them: see measureDurations
	topClients topClients                // chooses the clients that have metrics of their own
	embedded   *embeddedCollector        // nil unless a program has the metrics in its own registry
	measures   bool                      // the durations of calls are measured for such a program
	admin      administration            // answers the administrator
	// daemon is true if this Server is the whole process and reports to systemd. It is false if a
	// program embeds the Server.
	daemon  bool
	stage   atomic.Pointer[string] // the current step of the start
	reloads reloads
	web     webServices
	reread  atomic.Pointer[config.Config] // the configuration that is in force; nil before Serve (inForce)
	status  atomic.Pointer[string]        // which exports cannot be opened; nil if all can
}

// New opens the directories and listeners that cfg names. The Server answers calls when Serve runs. If New fails, it
// leaves nothing open, and its error says what is wrong and what to do about it.
func New(cfg *config.Config) (*Server, error) { return Start(context.Background(), cfg) }

// Start is like New, but gives up when ctx ends: it then returns the context's error. If a file
// system hangs, so that the current step of the start does not end within a second more, Start returns
// an *Unfinished that names the step.
func Start(ctx context.Context, cfg *config.Config) (*Server, error) {
	s := &Server{cfg: cfg, daemon: true}
	s.admin.Server = s
	opened := make(chan error, 1)
	go func() { opened <- s.open(ctx) }()
	select {
	case err := <-opened:
		if err != nil {
			return nil, err
		}
		return s, nil
	case <-ctx.Done():
	}
	began := time.Now()
	late := time.NewTimer(closing / 2)
	defer late.Stop()
	select {
	case err := <-opened:
		if err == nil {
			s.close()
		}
		if left, unfinished := errors.AsType[*Unfinished](err); unfinished {
			return nil, left
		}
		return nil, context.Cause(ctx)
	case <-late.C:
		go func() {
			if err := <-opened; err == nil {
				s.close()
			}
		}()
		return nil, &Unfinished{Left: []string{*s.stage.Load()}, Took: time.Since(began)}
	}
}

func (s *Server) open(ctx context.Context) (err error) {
	cfg := s.cfg
	s.enters("checking the configuration")
	if len(cfg.Exports) == 0 {
		return cfg.At(errNoExports)
	}
	if err := cfg.Check(); err != nil {
		return err
	}
	s.log = newLog(cfg.LogLevel, cfg.LogFormat, &s.admin)
	s.keepThreadsClean()
	if err := cfg.CheckListening(); err != nil {
		return err
	}
	switch remedy, err := cfg.CheckMemory(); {
	case err != nil:
		return err
	case remedy != "":
		s.log.Warn(logline.MemoryTooLarge, zap.String("remedy", remedy))
	}
	s.enters("looking whether exports and the state directory are apart")
	if err := exports.KeepApart(cfg); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	s.enters("opening state directory " + cfg.StateDir)
	if s.state, err = openState(cfg.StateDir); err != nil {
		return err
	}
	s.state.warnOfLoss(s.log)
	key, err := s.state.handleKey()
	if err != nil {
		return err
	}
	s.filesystems = exports.NewFilesystems(cfg.StateDir, s.log, divide(descriptorLimit(), cfg.Limits.Connections).files)
	return s.start(key, func() error { return s.openExports(ctx) })
}

// openExports opens the directories of the configuration. It returns an error if it can open none, or,
// with the key strict, if it cannot open all; those that the administrator has stopped do not count. It
// waits for a directory that has not answered if the daemon cannot start without it: a disk that is slow
// when the machine starts is no fault of the configuration.
func (s *Server) openExports(ctx context.Context) error {
	s.offer = exports.NewOffer(s.log, s.exports, s.filesystems, s.exportsAtFault)
	if err := s.offer.Recall(); err != nil {
		return err
	}
	s.enters("opening the directories of exports")
	if _, err := s.offer.Serve(ctx, s.cfg.Exports); err != nil {
		return err
	}
	for told := false; ctx.Err() == nil; told = true {
		fault, late := s.needed()
		switch {
		case fault != nil:
			return s.cfg.At(fmt.Errorf("export %s: %w", fault.Name, fault.Err), config.PathKey(fault.Index), config.ExportKey(fault.Index))
		case late == nil:
			s.enters("listening")
			s.offer.Begin()
			return nil
		case !told:
			s.log.Warn(logline.WaitsForDirectory, zap.String("export", late.Name), zap.Error(late.Err))
		}
		s.offer.Hanging(time.Second)
	}
	began := time.Now()
	if hanging := s.offer.Hanging(closing / 4); len(hanging) > 0 {
		return &Unfinished{Left: []string{"opening " + strings.Join(hanging, ", ")}, Took: time.Since(began)}
	}
	return context.Cause(ctx)
}

// needed returns an export without which the daemon does not start: fault if its directory cannot be opened,
// late if the directory has not answered yet. It returns nil for both if the daemon can start.
func (s *Server) needed() (fault, late *exports.Fault) {
	all := s.offer.Faults()
	faults := slices.DeleteFunc(slices.Clone(all), func(f exports.Fault) bool { return f.Stopped })
	toServe := len(s.cfg.Exports) - (len(all) - len(faults))
	if len(faults) == 0 || len(faults) < toServe && !s.cfg.Strict {
		return nil, nil
	}
	for i := range faults {
		switch f := &faults[i]; {
		case f.Late && late == nil:
			late = f
		case !f.Late && fault == nil:
			fault = f
		}
	}
	if late != nil && !s.cfg.Strict {
		fault = nil
	}
	return fault, late
}

func (s *Server) enters(stage string) { s.stage.Store(&stage) }

// start builds the server from the lower layers to the upper ones. The function open puts the exports
// into s.exports.
func (s *Server) start(key [export.KeySize]byte, open func() error) (err error) {
	s.lines, s.names = newClientLines(s.log, clientLineEvery), newClientLines(s.log, nameLineEvery)
	s.connectionLines = newClientLines(s.log, clientLineEvery)
	table := export.NewTable(key)
	pseudo.Attach(table)
	s.openUsers()
	table.Groups = s.groups
	table.OnRefusal = s.mountRefused
	table.OnRefusedFlavor = s.flavorRefused
	table.OnRefusedPrincipal = s.principalRefused
	s.exports = exports.NewSet(s.log, table, s.filesystems)
	if err := s.openClients(key); err != nil {
		return err
	}
	if err := open(); err != nil {
		return err
	}
	if s.pool, err = mem.NewPool(s.memory(s.exports.Table.All())); err != nil {
		return err
	}
	s.polls = busypoll.New(busypoll.Config{Most: time.Duration(s.cfg.BusyPoll), Procs: busyProcessors})
	calls := rpc.Config{Pool: s.pool, Processors: busyProcessors(), ReplyCacheBytes: int64(s.cfg.Memory.Replies), Panicked: s.panicked, Working: s.polls.Errand}
	calls.Slow, calls.TookLong = time.Duration(s.cfg.SlowCall), s.callTookLong
	s.rpc = rpc.NewServer(calls)
	s.openKerberos()
	for i := range programs {
		if programs[i].served(s.cfg) {
			s.rpc.Register(programs[i].open(s))
		}
	}
	if s.cfg.Metrics != "" || s.cfg.StatusPage != "" || s.measures {
		s.measureDurations()
	}
	s.census = s.newCensus()
	for i := range transports {
		if err := s.openTransport(&transports[i]); err != nil {
			return err
		}
	}
	s.openDatagrams()
	s.registration = s.newRegistration()
	return nil
}

// memory returns how payload memory is divided. If there may be several file systems, the calls
// to one of them may use at most half of it.
func (s *Server) memory(served []*export.Export) mem.Config {
	c := mem.Config{Ceiling: int64(s.cfg.Memory.Ceiling), Share: int64(s.cfg.Memory.Connection)}
	if len(served) == 1 && !served[0].CrossMount && len(s.cfg.Exports) <= 1 {
		c.Group = c.Ceiling
	}
	return c
}

// Serve runs until ctx ends, or a listener is closed or fails, and then drains: it answers the
// calls that complete within the drain timeout, and closes the file systems. This takes at most the
// time that EndsWithin returns. If something hangs, Serve leaves it behind, and the error contains
// an *Unfinished. A Server serves once.
func (s *Server) Serve(ctx context.Context) error {
	serving, end := context.WithCancelCause(ctx)
	defer end(nil)
	var running sync.WaitGroup
	for _, t := range s.transports {
		for _, l := range t.listeners {
			running.Go(func() {
				err := l.serve()
				if err != nil && !errors.Is(err, net.ErrClosed) {
					end(fmt.Errorf("%s listener ended: %w", t.title, err))
				}
				end(errClosed)
			})
		}
	}
	if s.datagrams != nil {
		for _, one := range s.datagrams.sockets {
			running.Go(one.Serve)
		}
	}
	running.Go(func() {
		every(serving, housekeeping, func() {
			s.pool.Housekeep()
			s.rpc.Heard()
		})
	})
	running.Go(func() {
		s.registration.compare(serving)
		s.registration.keep(serving)
	})
	running.Go(func() { s.watch(serving) })
	if s.offer != nil {
		running.Go(func() { every(serving, time.Minute, func() { s.offer.Retry(serving) }) })
	}
	s.admin.started, s.admin.seed = time.Now(), maphash.MakeSeed()
	s.serveWeb()
	stopAdmin := s.serveAdmin()
	s.announce()

	<-serving.Done()
	err := context.Cause(serving)
	if err == errClosed || errors.Is(err, context.Cause(ctx)) {
		err = nil
	}
	return errors.Join(err, s.shutDown(func(context.Context) {
		s.closeListeners()
		running.Wait()
	}, stopAdmin))
}

// errClosed says that a listener was closed, which ends Serve without an error.
var errClosed = errors.New("a listener was closed")

// every calls do once in each period, until ctx ends.
func every(ctx context.Context, period time.Duration, do func()) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}

func (s *Server) announce() {
	if s.nsm != nil {
		s.nsm.Announce()
	}
	var names []string
	for _, e := range s.exports.Table.All() {
		names = append(names, e.Name)
	}
	if s.state != nil {
		s.listState()
	}
	options, open := servedOptions(s.exports.Table)
	s.log.Info(logline.Serving,
		zap.Strings("exports", names), zap.Strings("options", options),
		zap.String("rdma", join(s.RDMAAddrs())), zap.String("tcp", join(s.TCPAddrs())),
		zap.Int64("memory_ceiling", int64(s.cfg.Memory.Ceiling)))
	if s.daemon && len(open) > 0 {
		s.log.Warn(logline.OpenToAll, zap.Strings("exports", open),
			zap.String("remedy", "name the clients with the option clients=, or give the option ro or sec=krb5"))
	}
	if s.daemon && !local.CanSwitch() {
		id := local.Identity()
		s.log.Warn(logline.ActsAsItself, zap.Uint32("uid", id.UID), zap.Uint32("gid", id.GID))
	}
	s.notifyReady(s.condition())
}
