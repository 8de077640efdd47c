package client

import (
	"net"
	"net/netip"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpcbind"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// Numbers of rpcbind, by its old name the port mapper (RFC 1833 §2, §3).
const (
	rpcbindProgram  = rpcbind.Program
	portmapVersion  = 2
	procNull        = 0
	procGetPort     = 3 // version 2
	procGetAddr     = 3 // versions 3 and 4
	procDump        = 4
	procGetTime     = 6 // versions 3 and 4
	protocolTCP     = 6
	rpcbindVersion3 = 3
	rpcbindVersion4 = 4
	procGetVersAddr = 9
)

// maxRPCBindText bounds a string of a question, in bytes.
const maxRPCBindText = 256

// relayed are the programs that the relay names to those who ask.
var relayed = []struct{ program, version uint32 }{
	{nfs3wire.Program, nfs3wire.Version},
	{nfs3wire.Program, 4},
	{mount3wire.Program, mount3wire.Version},
	{rpcbindProgram, rpcbindVersion4},
}

// rpcbind answers a question to rpcbind, with the relay's own addresses: whole, as
// one reply (RFC 1833). Nothing can be registered here.
func (k *relayCall) rpcbind(args xdr.Decoder, w *xdr.Writer) {
	h := &k.head
	if h.Version < portmapVersion || h.Version > rpcbindVersion4 {
		rpc.PutProgMismatch(w, h.XID, portmapVersion, rpcbindVersion4)
		return
	}
	var put func() bool
	if h.Version == portmapVersion {
		put = k.portmap(&args, w)
	} else {
		put = k.universal(&args, w)
	}
	if put == nil {
		rpc.PutAccepted(w, h.XID, rpc.AcceptProcUnavail)
		return
	}
	rpc.PutAccepted(w, h.XID, rpc.Success)
	if !put() {
		w.Truncate(0)
		rpc.PutAccepted(w, h.XID, rpc.AcceptGarbageArgs)
	}
}

// port is where a program is found, or 0.
func (k *relayCall) port(program uint32) int {
	for _, p := range relayed {
		if p.program == program {
			return k.conn.relay.cfg.Port
		}
	}
	return 0
}

// portmap are the procedures of version 2 (RFC 1833 §3.2).
func (k *relayCall) portmap(args *xdr.Decoder, w *xdr.Writer) func() bool {
	switch k.head.Procedure {
	case procNull:
		return func() bool { return true }
	case procGetPort:
		return func() bool {
			program, _ := args.Uint32(), args.Uint32()
			protocol, _ := args.Uint32(), args.Uint32()
			port := 0
			if protocol == protocolTCP {
				port = k.port(program)
			}
			w.Uint32(uint32(port))
			return args.Finish() == nil
		}
	case procDump:
		return func() bool {
			for _, p := range relayed {
				w.Bool(true)
				w.Uint32(p.program)
				w.Uint32(p.version)
				w.Uint32(protocolTCP)
				w.Uint32(uint32(k.port(p.program)))
			}
			w.Bool(false)
			return true
		}
	}
	return nil
}

// universal are the procedures of versions 3 and 4 (RFC 1833 §2.2).
func (k *relayCall) universal(args *xdr.Decoder, w *xdr.Writer) func() bool {
	version4Only := k.head.Version == rpcbindVersion4
	switch {
	case k.head.Procedure == procNull:
		return func() bool { return true }
	case k.head.Procedure == procGetAddr, version4Only && k.head.Procedure == procGetVersAddr:
		return func() bool {
			program, _ := args.Uint32(), args.Uint32()
			netid := string(args.Opaque(maxRPCBindText))
			args.Opaque(maxRPCBindText) // the server's address, as the caller sees it
			args.Opaque(maxRPCBindText) // owner
			at, own := k.address()
			if port := k.port(program); port == 0 || netid != own {
				w.String("")
			} else {
				w.String(rpcbind.UniversalAddress(netip.AddrPortFrom(at, uint16(port))))
			}
			return args.Finish() == nil
		}
	case k.head.Procedure == procDump:
		return func() bool {
			at, own := k.address()
			for _, p := range relayed {
				w.Bool(true)
				w.Uint32(p.program)
				w.Uint32(p.version)
				w.String(own)
				w.String(rpcbind.UniversalAddress(netip.AddrPortFrom(at, uint16(k.port(p.program)))))
				w.String("")
			}
			w.Bool(false)
			return true
		}
	case k.head.Procedure == procGetTime:
		return func() bool {
			w.Uint32(uint32(time.Now().Unix()))
			return true
		}
	}
	return nil
}

// address is what the client reaches the relay by, and the netid of it.
func (k *relayCall) address() (netip.Addr, string) {
	a, _ := k.conn.nc.LocalAddr().(*net.TCPAddr)
	if a == nil {
		return netip.IPv4Unspecified(), rpcbind.TCP
	}
	at := a.AddrPort().Addr().Unmap()
	return at, rpcbind.Netid("tcp", at)
}
