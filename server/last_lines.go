package server

import (
	"bytes"
	"sync"
)

// keptLines is the number of lines of the log that the daemon keeps for a report, and longestKept how many bytes it keeps of
// each.
const (
	keptLines   = 256
	longestKept = 4096
)

// lastLines keeps the last lines of the log. The log writes each line to it.
type lastLines struct {
	mu    sync.Mutex
	lines [keptLines][]byte
	next  int
}

// Write keeps one line.
func (l *lastLines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	place := &l.lines[l.next%keptLines]
	*place = append((*place)[:0], bytes.TrimSuffix(line[:min(len(line), longestKept)], []byte("\n"))...)
	l.next++
	return len(line), nil
}

// Sync implements zapcore.WriteSyncer.
func (*lastLines) Sync() error { return nil }

// all returns the lines that are kept, the oldest first.
func (l *lastLines) all() (all []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := max(0, l.next-keptLines); i < l.next; i++ {
		all = append(all, string(l.lines[i%keptLines]))
	}
	return all
}
