package gss

import "time"

// MakeUsed has a context count as used since it was seen last.
func (s *Server) MakeUsed(handle []byte) bool {
	x := s.contexts.find(handle)
	if x != nil {
		x.used.Add(1)
	}
	return x != nil
}

// Sweep forgets what is over.
func (s *Server) Sweep() { s.sweep() }

// Forget is what a restart does to the contexts.
func (s *Server) Forget() { s.contexts.clear() }

// MaxUnderWay is how many calls of a Client are under way at once.
const MaxUnderWay = maxUnderWay

// AdoptContext is Adopt of a context without a Client.
func (s *Server) AdoptContext(c Context) []byte { return s.adopt(c) }

// MaxResting is how many peers without tickets are remembered.
const MaxResting = maxResting

// Resting counts them.
func (i *Initiators) Resting() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.resting)
}

// MaxAsking is how many principals are asked for at once.
const MaxAsking = maxAsking

// MaxRemembered is how many principals are remembered.
const MaxRemembered = maxRemembered

// Remembered counts them.
func (s *Server) Remembered() int {
	s.identities.mu.Lock()
	defer s.identities.mu.Unlock()
	return len(s.identities.of)
}

// Identify has a principal identified as the making of a context does.
func (s *Server) Identify(principal string) { s.identify(principal, time.Now()) }
