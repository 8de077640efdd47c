package gss

import "time"

// MakeUsed makes a context count as used again (usedAgainLocked).
func (s *Server) MakeUsed(handle []byte) bool {
	x := s.contexts.find(handle)
	if x != nil {
		x.used.Add(1)
	}
	return x != nil
}

// Sweep deletes expired and unused contexts.
func (s *Server) Sweep() { s.sweep() }

// Forget deletes all contexts, as a restart does.
func (s *Server) Forget() { s.contexts.clear() }

// MaxUnderWay is the largest number of outstanding calls of a Client.
const MaxUnderWay = maxUnderWay

// AdoptContext is like Adopt, for a context without a Client.
func (s *Server) AdoptContext(c Context) []byte { return s.adopt(c) }

// MaxFailures is the largest number of peers whose failures Initiators stores.
const MaxFailures = maxFailures

// Failures returns the number of peers whose failures are stored.
func (i *Initiators) Failures() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.failures)
}

// MaxAsking is the largest number of look-ups that run at once.
const MaxAsking = maxAsking

// MaxRemembered is the largest number of principals in the cache of identities.
const MaxRemembered = maxRemembered

// Remembered returns the number of principals in the cache of identities.
func (s *Server) Remembered() int {
	s.identities.mu.Lock()
	defer s.identities.mu.Unlock()
	return len(s.identities.of)
}

// Identify looks up the identity of a principal, as a call that makes a context does.
func (s *Server) Identify(principal string) { s.identify(principal, time.Now()) }
