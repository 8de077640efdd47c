package server

import "context"

func (s *Server) register(context.Context) (unregister func(context.Context)) {
	return func(context.Context) {}
}
