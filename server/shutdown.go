package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/server/logline"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// farewell is how long peers may take, at most, to receive the last replies and end their
// connections, so that a peer that is gone does not delay the shutdown for longer. If less of the
// drain timeout is left, peers have only that.
const farewell = 5 * time.Second

// shutDown ends a Server that serves. Its first step is to call stopListening.
func (s *Server) shutDown(stopListening, stopAdmin func(context.Context)) error {
	s.admin.draining.Store(true)
	drain := time.Duration(s.inForce().DrainTimeout)
	e := newEnding(s.log, drain+closing*3/4)
	s.notifyStopping(s.EndsWithin())
	s.log.Info(logline.Draining, zap.Duration("at_most", drain))
	e.do("listeners", stopListening)
	rpcbind := e.begin("taking the registration with rpcbind back", e.half(), s.registration.remove)
	e.wait(e.begin("calls in progress", e.began.Add(drain), func(ctx context.Context) {
		if s.rpc.Drain(ctx) != nil {
			s.logCalls(drain)
		}
	}))
	parting := min(time.Until(e.began.Add(drain)), farewell)
	e.do("parting from peers", func(ctx context.Context) { s.part(ctx, parting) })
	e.wait(rpcbind)
	e.do("metrics", s.web.metrics.close)
	e.do("the status page", s.web.page.close)
	e.do("the administrator's socket", stopAdmin)
	s.release(e)
	return e.result()
}

// closeCalls ends the calls of all transports. Its error means that some still run.
func (s *Server) closeCalls(ctx context.Context) error {
	err := s.rpc.CloseWithin(ctx)
	if s.datagrams != nil {
		err = cmp.Or(err, s.datagrams.rpc.CloseWithin(ctx))
	}
	return err
}

// part sends the last replies and ends the connections. Peers have the given time for this; part
// then cuts the remaining connections.
func (s *Server) part(ctx context.Context, within time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var parting sync.WaitGroup
	for _, t := range s.transports {
		parting.Go(func() {
			if err := t.Shutdown(ctx); err != nil {
				s.log.Info(logline.ConnectionsCut, zap.Error(err))
			}
		})
	}
	parting.Wait()
}

// close ends a Server that never served, even if it is only partly set up.
func (s *Server) close() {
	e := newEnding(zap.NewNop(), closing*3/4)
	e.do("listeners", func(context.Context) { s.closeListeners() })
	s.release(e)
}

func (s *Server) closeListeners() {
	for _, t := range s.transports {
		for _, l := range t.listeners {
			l.close()
		}
	}
	s.datagrams.closeSockets()
}

// release ends connections, calls, exports, memory and the state directory, in this order,
// because each uses those after it. If one of them does not end, those that it uses stay open,
// except the state directory.
func (s *Server) release(e *ending) {
	if s.embedded != nil {
		e.do("metrics in the program's registry", func(context.Context) { s.embedded.remove() })
	}
	var connections []*step
	until := e.half()
	for _, t := range s.transports {
		connections = append(connections, e.begin(t.title+" connections", until, func(context.Context) { t.Close() }))
	}
	if s.census != nil {
		s.census.Close()
	}
	if s.groups != nil {
		e.do("callers' groups", func(context.Context) { s.groups.Close() })
	}
	cut := e.wait(connections...)
	quiet := cut
	var busy []rpc.LaneStats
	if s.rpc != nil {
		var err error
		if ended := e.do("calls", func(ctx context.Context) { err = s.closeCalls(ctx) }); !ended || err != nil {
			quiet = false
			if busy = s.rpc.Lanes(); s.datagrams != nil {
				busy = append(busy, s.datagrams.rpc.Lanes()...)
			}
		}
	}
	if s.gss != nil && quiet {
		e.do("callers' identities", func(context.Context) { s.gss.Close() })
	}
	e.do("what NFSv4 clients hold", s.closeClients)
	for _, l := range busy {
		e.left = append(e.left, s.describe(l))
	}
	closed := s.releaseExports(e, cut, busy)
	if s.pool != nil && quiet && closed {
		e.do("payload memory", func(context.Context) { s.pool.Close() })
	}
	if s.state != nil {
		// The state directory is closed even if an earlier step has not ended, because the next process
		// needs it.
		e.do("state directory", func(context.Context) {
			s.closeRecords()
			s.state.close()
		})
	}
	_ = s.log.Sync()
}

// releaseExports closes the exports that nothing uses, all at the same time, and reports whether it
// closed every export. If idle is false, connections may still use any export, and releaseExports
// closes none. The list busy has the calls that still run; their exports stay open. If it has calls
// of unknown exports, every export stays open.
func (s *Server) releaseExports(e *ending, idle bool, busy []rpc.LaneStats) (all bool) {
	if s.exports == nil {
		return true
	}
	e.do("asking for unsynced data", func(context.Context) { s.logUnsynced() })
	var steps []*step
	all, until := true, e.half()
	for _, x := range s.exports.End() {
		if !idle || slices.ContainsFunc(busy, func(l rpc.LaneStats) bool { return len(s.exports.Names(l.Lane)) == 0 || l.Lane == x.Lane }) {
			all = false
			continue
		}
		steps = append(steps, e.begin("closing export "+x.Name+x.What, until, func(context.Context) {
			if err := x.Close(); err != nil {
				s.log.Error(logline.ExportUnclosed, zap.String("export", x.Name), zap.Error(err))
			}
		}))
	}
	return e.wait(steps...) && all
}

// describe returns a text for the log about calls of one lane that do not end.
func (s *Server) describe(l rpc.LaneStats) string {
	of := "that have not been tried"
	if names := s.exports.Names(l.Lane); len(names) > 0 {
		of = "of export " + strings.Join(names, ", ")
	}
	return fmt.Sprintf("%d calls %s, the oldest for %v", l.Running, of, l.Oldest.Round(time.Millisecond))
}

func (s *Server) logCalls(drain time.Duration) {
	elsewhere := s.rpc.Stats().InProgress
	for _, l := range s.rpc.Lanes() {
		s.log.Warn(logline.CallsInProgress,
			zap.Strings("exports", s.exports.Names(l.Lane)), zap.Int("running", l.Running), zap.Int("waiting", l.Queued),
			zap.Duration("oldest", l.Oldest.Round(time.Millisecond)))
		elsewhere -= int64(l.Running + l.Queued)
	}
	if elsewhere > 0 {
		s.log.Warn(logline.CallsElsewhere,
			zap.Int64("calls", elsewhere), zap.Duration("oldest_at_least", drain))
	}
}

// logUnsynced logs which exports have data that may not be on stable storage. Clients send it
// again, because the next process has another write verifier.
func (s *Server) logUnsynced() {
	seen := make(map[vfs.FileSystem]*export.Export)
	for _, x := range s.exports.All() {
		u, ok := vfs.As[interface{ Unsynced() int }](x.FS)
		if !ok || seen[x.FS] != nil {
			continue
		}
		seen[x.FS] = x
		if n := u.Unsynced(); n > 0 {
			s.log.Info(logline.Uncommitted, zap.String("export", x.Name), zap.Int("files", n))
		}
	}
}
