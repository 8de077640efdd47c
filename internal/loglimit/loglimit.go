// Package loglimit limits how often a log line is written about one subject, so that an event that
// repeats cannot fill the log. It counts the lines that were left out.
package loglimit

import (
	"sync"
	"time"
)

// A Limit allows one line about each key in each period Every. Unless Most is 0, it allows at most
// Most lines about all keys together in that time. Due may be called from any goroutine.
type Limit[K comparable] struct {
	Every time.Duration
	Most  int

	mu    sync.Mutex
	lines map[K]*line
	// leftOut counts the lines that were left out because there were Most. It also has the counts of
	// deleted entries.
	leftOut int
}

// A line has the time of the last line about a key, and the number of lines left out since then.
type line struct {
	last    time.Time
	leftOut int
}

// Due reports whether to write a line about key now. If so, it also returns how many lines were left
// out since the last one: lines about the key, and lines beyond Most. If not, it counts the line as
// left out.
func (l *Limit[K]) Due(key K, now time.Time) (leftOut int, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	about := l.lines[key]
	switch {
	case about != nil && now.Sub(about.last) < l.Every:
		about.leftOut++
		return 0, false
	case about == nil:
		if l.fullLocked(now) {
			l.leftOut++
			return 0, false
		}
		if l.lines == nil {
			l.lines = make(map[K]*line)
		}
		about = new(line)
		l.lines[key] = about
	}
	leftOut = about.leftOut + l.leftOut
	*about, l.leftOut = line{last: now}, 0
	return leftOut, true
}

// fullLocked reports whether there were Most lines in the last period. Before that, if there are
// Most entries, it deletes those whose last line is older, and adds their counts to l.leftOut.
func (l *Limit[K]) fullLocked(now time.Time) bool {
	if l.Most == 0 || len(l.lines) < l.Most {
		return false
	}
	for key, about := range l.lines {
		if now.Sub(about.last) >= l.Every {
			l.leftOut += about.leftOut
			delete(l.lines, key)
		}
	}
	return len(l.lines) >= l.Most
}
