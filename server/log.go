package server

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/nfsrdmad/nfsrdmad/internal/loglimit"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss/krb5"
	"github.com/nfsrdmad/nfsrdmad/server/logline"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// newLog makes a logger to standard error. Under systemd the lines have no time, because the
// journal adds it. The administrator may change its level, and reads its last lines.
func newLog(level, format string, admin *administration) *zap.Logger {
	l, err := zapcore.ParseLevel(level)
	if err != nil {
		l = zapcore.InfoLevel
	}
	admin.level = zap.NewAtomicLevelAt(l)
	c := zap.NewProductionEncoderConfig()
	c.EncodeTime = zapcore.ISO8601TimeEncoder
	c.EncodeDuration = zapcore.StringDurationEncoder
	if os.Getenv("JOURNAL_STREAM") != "" {
		c.TimeKey = zapcore.OmitKey
	}
	enc := zapcore.NewConsoleEncoder(c)
	if format == "json" {
		enc = zapcore.NewJSONEncoder(c)
	}
	return zap.New(zapcore.NewCore(enc, zapcore.NewMultiWriteSyncer(&admin.last, zapcore.Lock(os.Stderr)), admin.level))
}

// panicked logs a bug of the server that ended a call. Package rpc reports each place in the code
// once, so that a peer that causes it repeatedly cannot fill the disk.
func (s *Server) panicked(p *rpc.Panic) {
	line := s.log.Check(zapcore.ErrorLevel, logline.CallFault)
	if line == nil {
		return
	}
	line.Stack = string(p.Stack)
	line.Write(
		zap.String("program", programName(p.Program)), zap.String("procedure", p.Procedure),
		zap.String("fault", fmt.Sprint(p.Value)))
}

// clientLineEvery is the shortest time between two log lines about one client and one subject. In that
// time there are at most eachClientLines lines about one client and mostClientLines about all clients.
// nameLineEvery is the shortest time between two lines about two clients with the same name.
const (
	clientLineEvery = 10 * time.Second
	eachClientLines = 8
	mostClientLines = 128
	nameLineEvery   = time.Minute
)

// clientLines writes log lines about clients. A client that repeats something causes few lines; the
// next line says how many were left out (others_before). Many clients together cannot fill the log
// either. An IPv6 client is its /64 prefix (clientaddr.Of). The methods may be called from any
// goroutine.
type clientLines struct {
	log   *zap.Logger
	limit loglimit.Clients
}

// newClientLines returns a clientLines. Within the time every it writes at most one line for each pair
// of client and subject.
func newClientLines(log *zap.Logger, every time.Duration) *clientLines {
	return &clientLines{log: log, limit: loglimit.Clients{Every: every, Most: mostClientLines, Each: eachClientLines}}
}

// write writes a line about a client, unless the limit is reached.
func (c *clientLines) write(level zapcore.Level, text string, client netip.Addr, fields ...zap.Field) {
	c.writeAbout(level, text, client, text, fields...)
}

// writeAbout is like write, but the subject (about) by which lines are limited may differ from the
// text.
func (c *clientLines) writeAbout(level zapcore.Level, text string, client netip.Addr, about string, fields ...zap.Field) {
	line := c.log.Check(level, text)
	if line == nil {
		return
	}
	if leftOut, due := c.limit.Due(client, about, time.Now()); due {
		line.Write(append(fields, othersBefore(leftOut))...)
	}
}

// othersBefore returns the field that says how many lines were left out before this one.
func othersBefore(leftOut int) zap.Field {
	if leftOut == 0 {
		return zap.Skip()
	}
	return zap.Int("others_before", leftOut)
}

// unlessEmpty returns a field, or none if its value is empty.
func unlessEmpty(key, value string) zap.Field {
	if value == "" {
		return zap.Skip()
	}
	return zap.String(key, value)
}

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
	state.Wanted:  {"its lease ran out, and another client wanted what it held", "see that the client runs and that the network reaches it; programs there get I/O errors for the files that they had open"},
	state.Named:   {"its lease ran out, and another client has its name", "give each client a host name of its own, or its kernel module nfs the option nfs4_unique_id"},
	state.Swept:   {"its lease ran out long ago, or there was no room for more clients", "nothing, if the client is switched off; else see that the network reaches it"},
	state.Ordered: {"the administrator ordered it (evict)", "nothing: the client may come again; to keep it away, change clients= of the exports"},
	state.Greedy:  {"its address had more clients than others, and others could not register", "find out why so many clients come from there"},
}

// clientEvent writes a log line for an event of a client's state. It is the callback
// state.Config.Event.
func (s *Server) clientEvent(e *state.Event) {
	switch e.Kind {
	case state.GraceBegan:
		s.log.Info(logline.GraceBegan,
			zap.Int("clients", len(e.Clients)), zap.Strings("waited_for", namesOf(e.Clients)), zap.Duration("lasts", e.For))
	case state.GraceEnded:
		s.log.Info(logline.GraceEnded, zap.Int("missing", len(e.Clients)), zap.Strings("without", namesOf(e.Clients)))
	case state.Reduced:
		c := e.Clients[0]
		s.lines.write(zapcore.WarnLevel, logline.OpensTaken, c.Address,
			zap.Stringer("client", c.Address), zap.String("name", nameOf(&c)), zap.Int("files", e.Opens), zap.Stringer("for", e.By),
			zap.String("remedy", "raise memory.state or LimitNOFILE, or find the program on the client, or on other machines of its network, that opens so many files"))
	case state.Refused:
		c, held := e.Clients[0], s.clients.Usage()
		s.log.Warn(logline.StateFull, zap.Stringer("client", c.Address), zap.String("name", nameOf(&c)),
			zap.Int("opens", held.Opens), zap.Int("locks", held.Locks), zap.Int("bytes", held.Memory), zap.Int64("memory.state", int64(s.cfg.Memory.State)),
			zap.String("remedy", "raise memory.state, or find the program on the client that opens or locks so many files"))
	case state.Taken:
		c := e.Clients[0]
		s.lines.write(zapcore.WarnLevel, logline.StateTaken, c.Address,
			zap.Stringer("client", c.Address), zap.String("name", nameOf(&c)), zap.String("reason", whys[e.Why][0]), zap.String("remedy", whys[e.Why][1]))
	case state.NameInUse:
		c := e.Clients[0]
		s.names.writeAbout(zapcore.WarnLevel, logline.SameName, e.By, "name of "+c.Address.String(),
			zap.Stringer("client", e.By), zap.Stringer("first", c.Address), zap.String("name", nameOf(&c)),
			zap.String("remedy", "nothing, if the client has changed its user: it waits for a lease_time at most. Else give each client a host name of its own, or its kernel module nfs the option nfs4_unique_id, and mount again"))
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

// Log lines about refused callers, so that an administrator finds the reason. Lower layers call
// these functions for each refusal.

// longestPath is the largest number of bytes of a client's path that a line shows.
const longestPath = 256

// remedies are the advice for refused mounts.
var remedies = map[export.Reason]string{
	export.NoExport:         "mount a path that `nfsrdmad probe` or `showmount -e` lists for this client, or add an export",
	export.NotAClient:       "add the address to the export's option clients=",
	export.UnprivilegedPort: "mount as root and without noresvport, or with Kerberos (sec=) where the export takes it, or give the export the option insecure",
	export.Stranger:         "add the address to the option clients= of an export",
}

// mountRefused writes a warning for a refused mount. If an NFSv4 client looks up a name that no
// export has, the level is only info, because users and programs often look for names that do not
// exist.
func (s *Server) mountRefused(r *export.Refusal) {
	client, level, text := r.Client.Addr().Unmap(), zapcore.WarnLevel, logline.MountRefused
	if _, v4 := r.Status.(nfs4wire.NFSStat4); v4 && r.Reason == export.NoExport {
		level, text = zapcore.InfoLevel, logline.NoSuchExport
	}
	path, name := r.Path, ""
	if len(path) > longestPath {
		path = path[:longestPath] + "..."
	}
	if r.Export != nil {
		name = r.Export.Name
	}
	s.lines.writeAbout(level, text, client, fmt.Sprint(text, r.Reason, path), zap.Stringer("client", client), zap.Uint16("port", r.Client.Port()), zap.String("path", path),
		zap.Stringer("reason", r.Reason), zap.Stringer("answer", r.Status), unlessEmpty("export", name), unlessEmpty("remedy", remedies[r.Reason]))
}

// flavorRefused writes a line for a caller whose security flavor the export does not accept. The
// level is info, because a client that tries one flavor after the other is refused at first. An
// export that refuses a flavor accepts at least one other, so taken[0] exists.
func (s *Server) flavorRefused(c *rpc.Conn, e *export.Export, as export.Security) {
	client := c.Peer.Addr().Unmap()
	var taken []string
	for _, f := range e.SecurityFor(client) {
		taken = append(taken, f.String())
	}
	s.lines.writeAbout(zapcore.InfoLevel, logline.FlavorRefused, client, fmt.Sprint("flavor", as, e.Name),
		zap.Stringer("client", client), zap.String("export", e.Name), zap.Stringer("flavor", as), zap.String("sec", strings.Join(taken, ":")),
		zap.String("remedy", fmt.Sprintf("unless the client goes on by itself, mount with sec=%s, or add %s to the export's option sec", taken[0], as)))
}

// principalRefused writes a line for a caller without an account, if the export refuses such
// callers.
func (s *Server) principalRefused(c *rpc.Conn, e *export.Export, principal string) {
	client := c.Peer.Addr().Unmap()
	s.lines.write(zapcore.WarnLevel, logline.PrincipalRefused, client,
		zap.Stringer("client", client), zap.String("export", e.Name), zap.String("principal", principal),
		zap.String("remedy", "make the user here, or name one for the principal with the key kerberos.principals, or take require_account out of the export's options"))
}

// usualReasons are the reasons for which no line is written, because they are normal. After a
// restart of the server, for example, a client simply makes a new context.
var usualReasons = []gss.Reason{gss.UnknownHandle, gss.SeqExhausted, gss.Stale, gss.Replayed, gss.RefusedHandle, gss.Evicted}

// contextRefused logs that a Kerberos context or a call under one was refused. It is the callback
// gss.Config.Notify.
func (s *Server) contextRefused(e *gss.Event) {
	if slices.Contains(usualReasons, e.Reason) {
		return
	}
	client, level := e.Peer.Addr().Unmap(), zapcore.WarnLevel
	if e.Reason == gss.UnknownPrincipal && krb5.IsMachine(e.Principal) {
		level = zapcore.DebugLevel // the client's machine itself, when it mounts; it needs no user here
	}
	s.lines.write(level, logline.Kerberos+e.Reason.String(), client, zap.Stringer("client", client), zap.Stringer("reason", e.Reason),
		zap.String("cause", e.Cause), unlessEmpty("principal", e.Principal), unlessEmpty("remedy", e.Remedy))
}
