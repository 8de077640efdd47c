package server

import (
	"net/netip"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/internal/loglimit"
)

// clientLineEvery is the shortest time between two log lines about one client and one subject.
// mostClientLines is the largest number of lines in that time, for all clients together.
// nameLineEvery is the shortest time between two lines about two clients with the same name.
const (
	clientLineEvery = 10 * time.Second
	mostClientLines = 128
	nameLineEvery   = time.Minute
)

// clientLines writes log lines about clients. A client that repeats something causes few lines; the
// next line says how many were left out (others_before). Many clients together cannot fill the log
// either. An IPv6 client is its /64 prefix (clientaddr.Of). The methods may be called from any
// goroutine.
type clientLines struct {
	log   *zap.Logger
	limit loglimit.Limit[clientLine]
}

// A clientLine is a client and a subject. It is the key under which lines are limited and counted.
type clientLine struct {
	client netip.Addr
	about  string
}

// newClientLines returns a clientLines that writes one line about a client and subject in each period
// every, and mostClientLines lines in all.
func newClientLines(log *zap.Logger, every time.Duration) *clientLines {
	return &clientLines{log: log, limit: loglimit.Limit[clientLine]{Every: every, Most: mostClientLines}}
}

// write writes a line about a client, with the fields that the function returns, unless the limit is
// reached.
func (c *clientLines) write(level zapcore.Level, text string, client netip.Addr, fields func() []zap.Field) {
	c.writeAbout(level, text, client, text, fields)
}

// writeAbout is like write, but the subject (about) by which lines are limited may differ from the
// text.
func (c *clientLines) writeAbout(level zapcore.Level, text string, client netip.Addr, about string, fields func() []zap.Field) {
	line := c.log.Check(level, text)
	if line == nil {
		return
	}
	leftOut, due := c.limit.Due(clientLine{clientaddr.Of(client), about}, time.Now())
	if !due {
		return
	}
	all := fields()
	if leftOut > 0 {
		all = append(all, zap.Int("others_before", leftOut))
	}
	line.Write(all...)
}
