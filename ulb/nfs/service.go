package nfs

import "github.com/nfsrdmad/nfsrdmad/rpc"

// A Service is the part of an rpc.Program that says what the program serves: one version of one
// program, with its binding.
type Service struct {
	Program, Version uint32
	Procedures       *rpc.Binding
}

// Number returns the RPC program number.
func (s *Service) Number() uint32 { return s.Program }

// Versions returns the version twice, because it is the lowest and the highest one.
func (s *Service) Versions() (low, high uint32) { return s.Version, s.Version }

// Binding returns the binding of a version, or nil if the version is not served.
func (s *Service) Binding(version uint32) *rpc.Binding {
	if version != s.Version {
		return nil
	}
	return s.Procedures
}
