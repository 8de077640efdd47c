package server

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/internal/doorway"
	"github.com/nfsrdmad/nfsrdmad/internal/loglimit"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/logline"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
)

// quietTimeout is how long a client may stay silent after it has connected. It applies only while
// few clients do so; otherwise SetupTimeout and FirstCallTimeout of config.Limits apply. Linux's
// server closes idle connections after the same time.
const quietTimeout = 6 * time.Minute

// acceptLineEvery is the shortest time between two lines about a failed accept(2).
const acceptLineEvery = time.Minute

// seats returns how many connections there may be at a time.
func (s *Server) seats() int { return divide(descriptorLimit(), s.cfg.Limits.Connections).seats }

// perClient returns how many of the seats one client address may have.
func perClient(l *config.Limits, seats int) int { return cmp.Or(l.PerClient, (seats+1)/2) }

// newCensus makes the census, which counts and limits the connections of all listeners.
func (s *Server) newCensus() *census.Census {
	l := &s.cfg.Limits
	seats := s.seats()
	if seats < l.Connections {
		s.log.Warn(logline.FewerConnections,
			zap.Int("limits.connections", l.Connections), zap.Int("possible", seats), zap.Int("open_files", descriptorLimit()))
	}
	failed := loglimit.Limit[struct{}]{Every: acceptLineEvery}
	return census.New(census.Config{
		Seats: seats, PerAddress: perClient(l, seats),
		SetupTimeout: time.Duration(l.SetupTimeout), FirstTimeout: time.Duration(l.SetupTimeout),
		CallTimeout: time.Duration(l.FirstCallTimeout), QuietTimeout: quietTimeout,
		Event: s.seatEvent,
		AcceptFailed: func(err error) {
			if leftOut, due := failed.Due(struct{}{}, time.Now()); due {
				s.log.Warn(logline.AcceptFailed, zap.Error(config.Cause(err)), zap.Int("others_before", leftOut),
					zap.String("remedy", "if the cause is too many open files, raise LimitNOFILE= in the unit (ulimit -n)"))
			}
		},
	})
}

// seatEvent writes a line for a connection that the census refused or ended, so that an
// administrator finds out why a client cannot connect. If the client made no call that an export
// serves (NothingServed), or sent nothing over TCP (NothingHeard), the level is debug, because
// some clients connect when they mount and send nothing.
func (s *Server) seatEvent(e census.Event) {
	text, level := logline.ConnectionEnded, zapcore.InfoLevel
	switch {
	case e.Why.Refusal():
		text, level = logline.ConnectionRefused, zapcore.WarnLevel
	case e.Why == census.NothingServed || e.Why == census.NothingHeard && e.Peer.Transport == "tcp":
		level = zapcore.DebugLevel
	}
	s.connectionLine(level, text, text+e.Why.String(), e.Peer.Transport, e.Peer.Addr,
		zap.String("reason", e.Why.String()), zap.Stringer("stage", e.Stage), zap.Duration("age", e.Age.Round(time.Millisecond)), zap.NamedError("because", e.Why))
}

// rdmaFault logs a message that the server did not serve. It is the callback rdma.Config.Event.
// The level is debug, because a peer can cause any number of faults, and metrics count each one.
func (s *Server) rdmaFault(e rdma.Event) {
	s.connectionLine(zapcore.DebugLevel, "message not served", "", "rdma", e.Peer,
		zap.Stringer("reason", e.Fault), zap.Stringer("answer", e.Answer), zap.Uint32("xid", e.XID), zap.Int("version", e.Version), zap.NamedError("because", e.Fault))
}

// rdmaVersion logs which version of RPC-over-RDMA a client has chosen. It is the callback rdma.Config.Chosen.
func (s *Server) rdmaVersion(peer netip.AddrPort, version int) {
	s.connectionLine(zapcore.DebugLevel, "version of RPC-over-RDMA chosen", "", "rdma", peer, zap.Int("version", version))
}

// connectionEvent logs an event of a connection: of kind what, with the error err. fault says that the
// connection did not end as connections usually do.
func (s *Server) connectionEvent(transport string, what fmt.Stringer, peer netip.AddrPort, err error, fault bool) {
	if _, ok := errors.AsType[census.Reason](err); ok {
		return // seatEvent has written a line for it
	}
	text, level, remedy := "connection "+what.String(), zapcore.DebugLevel, ""
	if fault {
		text, level, remedy = logline.ClosedFault, zapcore.InfoLevel, s.faultRemedy(err)
		if what.String() != "closed" {
			text = logline.SetupFault
		}
	}
	s.connectionLine(level, text, text+remedy, transport, peer, zap.NamedError("because", err), unlessEmpty("remedy", remedy))
}

// faultRemedy returns the advice for a connection that ended, or could not be set up, because of
// err. If the limit of locked memory is too small for a connection, the driver's error is ENOMEM.
func (s *Server) faultRemedy(err error) string {
	if m, is := errors.AsType[*doorway.Mistake](err); is {
		return s.mistakeRemedy(m.Speaks)
	}
	switch {
	case errors.Is(err, rdmacm.ErrNoMemory):
		return "raise device_memory in [rnic], or the limit of locked memory (LimitMEMLOCK= in the unit, ulimit -l)"
	case errors.Is(err, syscall.ENOMEM):
		return "raise the limit of locked memory (LimitMEMLOCK= in the unit, ulimit -l, --ulimit memlock=-1:-1 for a container): nfsrdmad doctor says how much is needed"
	}
	return "nothing, if it is rare: the client connects again. Else see whether the client restarts or stands still, packets are lost on the way, or a firewall or address translation forgets connections"
}

// mistakeRemedy returns the advice about a client that speaks another protocol than that of the port.
func (s *Server) mistakeRemedy(speaks doorway.Protocol) string {
	var options []string
	for _, t := range s.transports {
		for _, l := range t.listeners {
			options = append(options, fmt.Sprintf("-o proto=%s,port=%d", t.name, l.addr.Port()))
		}
	}
	switch speaks {
	case doorway.RPC, doorway.MPA:
		slices.Sort(options)
		return "mount with " + strings.Join(slices.Compact(options), ", or ")
	case doorway.TLS:
		return "mount without TLS: a connection that begins with TLS is not NFS (RFC 9289 begins with an RPC call)"
	}
	return "nothing, if a scanner did this. A health check can connect and close"
}

// connectionLine writes a log line about a connection. Lines above the level debug are limited in
// number for each client and subject (about). They have a limit of their own, because anyone can connect: so
// they hide no line about a call.
func (s *Server) connectionLine(level zapcore.Level, text, about, transport string, peer netip.AddrPort, fields ...zap.Field) {
	fields = append([]zap.Field{zap.String("transport", transport), zap.Stringer("client", peer)}, fields...)
	if level == zapcore.DebugLevel {
		s.log.Debug(text, fields...)
		return
	}
	s.connectionLines.writeAbout(level, text, peer.Addr(), about, fields...)
}
