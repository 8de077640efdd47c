package mem

import "sync/atomic"

// ledgerStep is the largest difference, in bytes, between a Ledger and the charges of its share.
const ledgerStep = 16 << 10

// A Ledger adds up the Go heap memory that one connection makes this process keep. It collects
// small changes and charges the share in large steps, so that most changes cost one atomic
// addition. Nothing else charges a share with a Ledger. The zero Ledger charges no share.
type Ledger struct {
	share   *Share
	n, told atomic.Int64
}

// Open makes l the ledger of s. Call it before the first Add.
func (l *Ledger) Open(s *Share) { l.share = s }

// Add adds n bytes; a negative n removes them. The share is charged half as much again, for
// garbage that is not collected yet.
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
	// Other goroutines may have added meanwhile. Charge the present value.
	is = l.n.Load()
	l.told.Store(is)
	l.share.charges(is + is/2 - l.share.heap)
	p.watch()
	p.grant()
	p.deliver()
}
