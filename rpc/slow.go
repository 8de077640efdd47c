package rpc

import "time"

// A Delay describes a call that took long.
type Delay struct {
	Conn                             *Conn
	Program, Version, Procedure, XID uint32
	// Name is the procedure's name. Subject is Call.Subject.
	Name    string
	Subject any
	// Took is the time since the call first came to the executor or was detached.
	Took time.Duration
	// Longest is the longest time for which it was in one Stage; if that is Detached, Wait is what it waited for.
	Longest time.Duration
	Stage   Stage
	Wait    Wait
}

// was notes that the call has been in a stage for a time.
func (st *callState) was(stage Stage, wait Wait, d time.Duration) {
	if d > st.longest {
		st.longest, st.longestStage, st.longestWait = d, stage, wait
	}
}

// leaves notes that a worker does not execute the call any more, if one does.
func (st *callState) leaves(now time.Time) {
	if st.worker != nil && !st.since.IsZero() {
		st.was(Executing, WaitUnknown, now.Sub(st.since))
		st.since = time.Time{}
	}
}

// SetSlow changes Config.Slow for the calls that end from now on.
func (s *Server) SetSlow(slow time.Duration) { s.slow.Store(int64(slow)) }

// SetObserve sets Config.Observe, which must not be nil, for the calls that end from now on. The Events of calls that are
// in progress have no duration, if there was no Observe before.
func (s *Server) SetObserve(observe func(*Event)) { s.observe.Store(&observe) }

// tellSlow calls Config.TookLong if the call took at least as long as slow.
func (s *Server) tellSlow(c *Call, slow time.Duration) {
	st, now := &c.state, time.Now()
	took := now.Sub(st.first)
	if took < slow || s.cfg.TookLong == nil {
		return
	}
	st.leaves(now)
	d := Delay{
		Conn: c.Conn, Program: c.Header.Program, Version: c.Header.Version, Procedure: c.Header.Procedure, XID: c.Header.XID,
		Subject: c.Subject, Took: took, Longest: st.longest, Stage: st.longestStage, Wait: st.longestWait,
	}
	if st.row != nil {
		d.Name = st.row.Name
	}
	s.cfg.TookLong(&d)
}
