package server

import (
	"cmp"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
)

// clientLineEvery is the shortest time between two log lines about one client and one subject.
// mostClientLines is the largest number of lines in that time, for all clients together.
// nameLineEvery is the shortest time between two lines about two clients with the same name.
const (
	clientLineEvery = 10 * time.Second
	mostClientLines = 128
	nameLineEvery   = time.Minute
)

// clientLines writes log lines about clients. A client that repeats something causes one line in
// each clientLineEvery; the next line says how many were left out (others_before). Many clients
// together cannot fill the log either: there are at most mostClientLines lines in each
// clientLineEvery. An IPv6 client is its /64 prefix (clientaddr.Of). The methods may be called
// from any goroutine.
type clientLines struct {
	log *zap.Logger
	// every is the shortest time between two lines about one client and subject; 0 means
	// clientLineEvery.
	every time.Duration
	mu    sync.Mutex
	lines map[clientLine]*recentLine
	// leftOut counts the lines that were left out because the map was full. It also has the
	// counts of deleted entries.
	leftOut int
}

// A clientLine is a client and a subject. It is the key under which lines are limited and
// counted.
type clientLine struct {
	client netip.Addr
	about  string
}

type recentLine struct {
	last    time.Time
	leftOut int
}

// write writes a line about a client, with the fields that the function returns, unless the same
// line about the client was written less than c.interval() ago, or there were mostClientLines lines
// in that time. It counts lines that it does not write.
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
	leftOut, due := c.due(clientLine{clientaddr.Of(client), about}, time.Now())
	if !due {
		return
	}
	all := fields()
	if leftOut > 0 {
		all = append(all, zap.Int("others_before", leftOut))
	}
	line.Write(all...)
}

func (c *clientLines) interval() time.Duration { return cmp.Or(c.every, clientLineEvery) }

// due reports whether to write a line now. If so, it also returns how many lines were left out
// since the last one: lines with the same key, and lines for which there was no room in the map. If
// not, it counts the line as left out.
func (c *clientLines) due(line clientLine, now time.Time) (leftOut int, due bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lines[line]
	switch {
	case l != nil && now.Sub(l.last) < c.interval():
		l.leftOut++
		return 0, false
	case l == nil:
		if len(c.lines) >= mostClientLines {
			c.forgetLocked(now)
		}
		if len(c.lines) >= mostClientLines {
			c.leftOut++
			return 0, false
		}
		if c.lines == nil {
			c.lines = make(map[clientLine]*recentLine)
		}
		l = new(recentLine)
		c.lines[line] = l
	}
	leftOut = l.leftOut + c.leftOut
	*l, c.leftOut = recentLine{last: now}, 0
	return leftOut, true
}

// forgetLocked deletes the entries whose last line is older than c.interval(), and adds their
// counts to c.leftOut. The caller holds c.mu.
func (c *clientLines) forgetLocked(now time.Time) {
	for line, l := range c.lines {
		if now.Sub(l.last) >= c.interval() {
			c.leftOut += l.leftOut
			delete(c.lines, line)
		}
	}
}
