// Package loglimit limits how often a log line is written about one subject, so that an event that
// repeats cannot fill the log. It counts the lines that were left out.
package loglimit

import (
	"sync"
	"time"
)

// A Limit allows one line about each key in each period Every. It remembers each key for ever, so it is for few keys.
// Any goroutine may call Due. Clients is for keys that others choose.
type Limit[K comparable] struct {
	Every time.Duration

	mu    sync.Mutex
	lines map[K]*line
}

// A line has the time of the last line about a key, and the number of lines left out since then.
type line struct {
	last    time.Time
	leftOut int
}

// Due reports whether to write a line about key now. If so, it also returns how many lines were left
// out about the key since the last one. If not, it counts the line as left out.
func (l *Limit[K]) Due(key K, now time.Time) (leftOut int, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	about := l.lines[key]
	switch {
	case about == nil:
		if l.lines == nil {
			l.lines = make(map[K]*line)
		}
		about = new(line)
		l.lines[key] = about
	case now.Sub(about.last) < l.Every:
		about.leftOut++
		return 0, false
	}
	leftOut = about.leftOut
	*about = line{last: now}
	return leftOut, true
}
