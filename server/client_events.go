package server

import (
	"fmt"
	"net/netip"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// Log lines about the state of NFSv4 clients. Package state calls clientEvent.

// namedClients is the largest number of clients whose names one log line shows. longestName is
// the largest number of bytes of a client's name that a line shows.
const (
	namedClients = 8
	longestName  = 64
)

// whys has two texts for each reason for which the server takes a client's state away: the reason
// in words, and the advice for the administrator.
var whys = map[state.Why][2]string{
	state.Wanted: {"its lease ran out, and another client wanted what it held", "see that the client runs and that the network reaches it; programs there get I/O errors for the files that they had open"},
	state.Named:  {"its lease ran out, and another client has its name", "give each client a host name of its own, or its kernel module nfs the option nfs4_unique_id"},
	state.Swept:  {"its lease ran out long ago, or there was no room for more clients", "nothing, if the client is switched off; else see that the network reaches it"},
	state.Greedy: {"clients of its address held so much that others got nothing", "raise memory.state, or find the program there that opens and locks so many files"},
}

// clientEvent writes a log line for an event of a client's state. It is the callback
// state.Config.Event.
func (s *Server) clientEvent(e *state.Event) {
	switch e.Kind {
	case state.GraceBegan:
		s.log.Info("time of grace begun: clients claim what they held before the restart, and nothing else is opened or locked until they have",
			zap.Int("clients", len(e.Clients)), zap.Strings("waited_for", namesOf(e.Clients)), zap.Duration("at_least_unless_all_have", e.For))
	case state.GraceEnded:
		s.log.Info("time of grace ended", zap.Int("did_not_come", len(e.Clients)), zap.Strings("without", namesOf(e.Clients)))
	case state.Taken:
		c := e.Clients[0]
		s.lines.write(zapcore.WarnLevel, "what a client had open and locked was taken from it", c.Address, func() []zap.Field {
			return []zap.Field{zap.Stringer("client", c.Address), zap.String("name", nameOf(&c)), zap.String("reason", whys[e.Why][0]), zap.String("remedy", whys[e.Why][1])}
		})
	case state.NameInUse:
		c := e.Clients[0]
		s.names.writeAbout(zapcore.WarnLevel, "two clients have one name: the second waits until the first is gone", e.By, "name of "+c.Address.String(), func() []zap.Field {
			return []zap.Field{
				zap.Stringer("client", e.By), zap.Stringer("first", c.Address), zap.String("name", nameOf(&c)),
				zap.String("remedy", "nothing, if the client has got another address: it waits for a lease_time at most. Else give each client a host name of its own, or its kernel module nfs the option nfs4_unique_id, and mount again"),
			}
		})
	}
}

// nameOf returns a client's own name, quoted, because it may hold any bytes.
func nameOf(r *state.Record) string {
	return fmt.Sprintf("%q", r.Owner[:min(len(r.Owner), longestName)])
}

// namesOf returns the names and addresses of the first namedClients clients.
func namesOf(all []state.Record) (names []string) {
	for _, r := range all[:min(len(all), namedClients)] {
		name := nameOf(&r)
		if r.Address != (netip.Addr{}) {
			name += " at " + r.Address.String()
		}
		names = append(names, name)
	}
	return names
}
