package gss

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
