package mem

import "sync/atomic"

// ledgerStep is by how much a Ledger may differ from what its share is charged, in
// bytes.
const ledgerStep = 16 << 10

// A Ledger gathers what one connection makes this process keep in the Go heap, in
// small steps, and charges its share in large ones: most changes cost an atomic
// addition. A share with a Ledger is charged by nothing else. The zero Ledger
// charges no share.
type Ledger struct {
	share   *Share
	n, told atomic.Int64
}

// Open makes the ledger one of s. It comes before the first Add.
func (l *Ledger) Open(s *Share) { l.share = s }

// Add takes note of n bytes more, or less where n is below 0. Half as much again is
// charged, for what the garbage collector leaves about.
func (l *Ledger) Add(n int) {
	if l.share == nil || n == 0 {
		return
	}
	is, told := l.n.Add(int64(n)), l.told.Load()
	if is-told < ledgerStep && told-is < ledgerStep && (is != 0 || told == 0) {
		return
	}
	p := l.share.pool
	p.mu.Lock()
	// Others add at the same time: what counts is what stands here now.
	is = l.n.Load()
	l.told.Store(is)
	l.share.charges(is + is/2 - l.share.heap)
	p.watch()
	p.grant()
	p.deliver()
}
