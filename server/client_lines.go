package server

import (
	"cmp"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
)

// A client makes one line about a thing in this time. All clients together make so many. Two
// clients that disturb each other make one line in nameLineEvery.
const (
	clientLineEvery = 10 * time.Second
	mostClientLines = 128
	nameLineEvery   = time.Minute
)

// clientLines writes the log's lines about clients. A client that does one thing again and
// again makes few, and the next one says how many were left out (others_before). Nor do
// many clients fill the log: beyond mostClientLines in clientLineEvery there are no lines. An
// IPv6 client is its /64 (census.Client). The methods may be called from any goroutine.
type clientLines struct {
	log *zap.Logger
	// every is the time between two lines; 0: clientLineEvery.
	every time.Duration
	mu    sync.Mutex
	lines map[clientLine]*recentLine
	// leftOut counts the lines of clients for which there was no room, or which
	// were forgotten.
	leftOut int
}

// A clientLine is what the lines that count together are about.
type clientLine struct {
	client netip.Addr
	about  string
}

type recentLine struct {
	last    time.Time
	leftOut int
}

// write writes a line about a client, with the fields that the function returns, unless
// the client made the same line a moment ago.
func (c *clientLines) write(level zapcore.Level, text string, client netip.Addr, fields func() []zap.Field) {
	c.writeAbout(level, text, client, text, fields)
}

// writeAbout is write for lines that count together where they are about the same.
func (c *clientLines) writeAbout(level zapcore.Level, text string, client netip.Addr, about string, fields func() []zap.Field) {
	line := c.log.Check(level, text)
	if line == nil {
		return
	}
	leftOut, due := c.due(clientLine{census.Client(client), about}, time.Now())
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

// due says whether there is to be a line now, and how many there were not before.
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

// forgetLocked drops the lines that are old. c.mu is held.
func (c *clientLines) forgetLocked(now time.Time) {
	for line, l := range c.lines {
		if now.Sub(l.last) >= c.interval() {
			c.leftOut += l.leftOut
			delete(c.lines, line)
		}
	}
}
