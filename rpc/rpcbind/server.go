package rpcbind

import (
	"net/netip"
	"slices"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// A Server answers calls to rpcbind, versions 2 to 4, for a fixed list of services. All services
// are on TCP, at one port of the local address of the call's connection. Clients cannot register
// services. It is an rpc.Program.
type Server struct {
	// Services lists the services, in the order in which DUMP returns them.
	Services []Service
	// Port is the TCP port of all services.
	Port uint16
}

// A Service is one version of a program.
type Service struct{ Program, Version uint32 }

// maxReply is the largest result of DUMP, in bytes.
const maxReply = 8 << 10

var (
	// portMapper is version 2 (RFC 1833 §3.2).
	portMapper = rpc.Binding{Procedures: []rpc.Procedure{
		procNull:    {Name: "NULL"},
		procGetPort: {Name: "GETPORT", MaxArgs: 4 * 4, MaxResults: 4},
		procDump:    {Name: "DUMP", MaxResults: maxReply},
	}}
	// rpcbind3 and rpcbind4 are versions 3 and 4 (RFC 1833 §2.2).
	rpcbind3 = rpc.Binding{Procedures: []rpc.Procedure{
		procNull:    {Name: "NULL"},
		procGetAddr: {Name: "GETADDR", MaxArgs: maxMapping, MaxResults: 4 + maxString},
		procDump:    {Name: "DUMP", MaxResults: maxReply},
		procGetTime: {Name: "GETTIME", MaxResults: 4},
	}}
	rpcbind4 = rpc.Binding{Procedures: slices.Concat(rpcbind3.Procedures, []rpc.Procedure{
		2: {Name: "GETVERSADDR", MaxArgs: maxMapping, MaxResults: 4 + maxString}, // procedure 9
	})}
)

// Number implements rpc.Program.
func (s *Server) Number() uint32 { return Program }

// Versions implements rpc.Program.
func (s *Server) Versions() (low, high uint32) { return version2, version4 }

// Binding implements rpc.Program.
func (s *Server) Binding(version uint32) *rpc.Binding {
	switch version {
	case version2:
		return &portMapper
	case version3:
		return &rpcbind3
	}
	return &rpcbind4
}

// Judge implements rpc.Program. Every client may call.
func (s *Server) Judge(*rpc.Arrived, *rpc.Judgement) rpc.Outcome { return rpc.Done }

// Serve implements rpc.Program.
func (s *Server) Serve(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
	at := netip.AddrPortFrom(c.Conn.Local.Addr().Unmap(), s.Port)
	switch p := c.Header.Procedure; {
	case p == procNull:
	case p == procDump:
		s.dump(c.Header.Version, at, w)
	case c.Header.Version == version2:
		s.getPort(&c.Args, w)
	case p == procGetTime:
		w.Uint32(uint32(time.Now().Unix()))
	default:
		s.getAddr(&c.Args, at, w)
	}
	if c.Args.Finish() != nil {
		return rpc.GarbageArgs
	}
	return rpc.Done
}

// serves reports whether s.Services has any version of the program. The version does not matter:
// GETADDR returns an address even if the service has another version than the requested one (RFC
// 1833 §2.2.1).
func (s *Server) serves(program uint32) bool {
	return slices.ContainsFunc(s.Services, func(v Service) bool { return v.Program == program })
}

func (s *Server) getPort(args *xdr.Decoder, w *xdr.Writer) {
	program, _ := args.Uint32(), args.Uint32()
	protocol, _ := args.Uint32(), args.Uint32()
	if protocol == protocolTCP && s.serves(program) {
		w.Uint32(uint32(s.Port))
	} else {
		w.Uint32(0)
	}
}

func (s *Server) getAddr(args *xdr.Decoder, at netip.AddrPort, w *xdr.Writer) {
	program, _ := args.Uint32(), args.Uint32()
	netid := string(args.Opaque(maxString))
	args.Opaque(maxString) // the address at which the caller reaches rpcbind
	args.Opaque(maxString) // the owner
	if netid == Netid("tcp", at.Addr()) && s.serves(program) {
		w.String(UniversalAddress(at))
	} else {
		w.String("")
	}
}

func (s *Server) dump(version uint32, at netip.AddrPort, w *xdr.Writer) {
	for _, v := range s.Services {
		w.Bool(true)
		if version == version2 {
			w.Uint32(v.Program)
			w.Uint32(v.Version)
			w.Uint32(protocolTCP)
			w.Uint32(uint32(s.Port))
			continue
		}
		putMapping(w, &Mapping{Program: v.Program, Version: v.Version, Netid: Netid("tcp", at.Addr())}, UniversalAddress(at))
	}
	w.Bool(false)
}
