package gss

import "time"

// MakeUsed makes a context count as used since its last visit by an eviction.
func (s *Server) MakeUsed(handle []byte) bool {
	x := s.contexts.find(handle)
	if x != nil {
		x.used.Add(1)
	}
	return x != nil
}

// Sweep forgets contexts that are over.
func (s *Server) Sweep() { s.sweep() }

// Forget forgets all contexts, as a restart does.
func (s *Server) Forget() { s.contexts.clear() }

// MaxUnderWay is the largest number of calls of a Client under way at once.
const MaxUnderWay = maxUnderWay

// AdoptContext is Adopt of a context without a Client.
func (s *Server) AdoptContext(c Context) []byte { return s.adopt(c) }

// MaxResting is the largest number of remembered peers without tickets.
const MaxResting = maxResting

// Resting returns the number of resting peers.
func (i *Initiators) Resting() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.resting)
}

// MaxAsking is the largest number of look-ups at once.
const MaxAsking = maxAsking

// MaxRemembered is the largest number of remembered principals.
const MaxRemembered = maxRemembered

// Remembered returns the number of remembered principals.
func (s *Server) Remembered() int {
	s.identities.mu.Lock()
	defer s.identities.mu.Unlock()
	return len(s.identities.of)
}

// Identify looks a principal up, as the making of a context does.
func (s *Server) Identify(principal string) { s.identify(principal, time.Now()) }
