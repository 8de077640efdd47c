package rpctest

import (
	"encoding/binary"
	"hash/crc32"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// FlavorSeal is an authentication flavor for tests. Its credential consists of the service, a key,
// and a checksum of the call's header. It protects against no attack, but has the structure of
// RPCSEC_GSS: a separate call makes a context, each reply has a verifier, and one of its services
// wraps arguments and results.
const FlavorSeal rpc.Flavor = 0x5ea1

// Services of FlavorSeal.
const (
	// SealNew makes a context, whatever the procedure number of the call. The result is the
	// context's key, an unsigned int.
	SealNew = iota
	// SealNone does not change arguments and results.
	SealNone
	// SealWrap replaces arguments and results by their length, their bytes XORed with a byte
	// computed from the key, and their checksum.
	SealWrap
)

// Keys with which Verify or Wrap fails, so that tests can cause each failure.
const (
	KeyUnknown = 0 // Verify denies the call
	KeyDrop    = 1 // Verify drops the call
	KeyEnd     = 2 // Verify drops the call and closes the connection
	KeyBare    = 3 // Wrap fails
	firstKey   = 16
)

// A Seal is the rpc.Protection of FlavorSeal.
type Seal struct {
	next atomic.Uint32
	// Guards is the number of sealGuards that are not released yet. Wrapped is the number
	// of results that were wrapped.
	Guards, Wrapped atomic.Int64
}

// NewSeal returns a Seal that has made no contexts.
func NewSeal() *Seal {
	s := new(Seal)
	s.next.Store(firstKey)
	return s
}

// sealSum returns the checksum of a call's header, service and key.
func sealSum(message []byte, service, key uint32) uint32 {
	var b [8]byte
	binary.BigEndian.PutUint32(b[:], service)
	binary.BigEndian.PutUint32(b[4:], key)
	return crc32.Update(crc32.ChecksumIEEE(message[:24]), crc32.IEEETable, b[:])
}

// Verify implements rpc.Protection.
func (s *Seal) Verify(a *rpc.Arrived) (rpc.Guard, rpc.Outcome) {
	d := xdr.NewDecoder(a.Header.Cred.Body)
	service, key, sum := d.Uint32(), d.Uint32(), d.Uint32()
	if d.Finish() != nil || service > SealWrap {
		return nil, rpc.Denied(rpc.AuthBadCred)
	}
	// The checksum excludes the XID, because the transport chooses it.
	header := append(make([]byte, 4, 24), a.Message[4:24]...)
	switch {
	case sum != sealSum(header, service, key):
		return nil, rpc.Denied(rpc.AuthBadVerf)
	case service == SealNew:
		s.Guards.Add(1)
		return &sealMaker{sealGuard{seal: s, xid: a.Header.XID}}, rpc.Done
	case key == KeyDrop:
		return nil, rpc.Dropped
	case key == KeyEnd:
		return nil, rpc.DropAndEnd
	case key == KeyUnknown || key >= s.next.Load():
		return nil, rpc.Denied(rpc.AuthRejectedCred)
	}
	a.Cred.Principal = "holder of a key"
	s.Guards.Add(1)
	return &sealGuard{seal: s, service: service, key: key, xid: a.Header.XID}, rpc.Done
}

// A sealGuard is the rpc.Guard of one call.
type sealGuard struct {
	seal              *Seal
	service, key, xid uint32
	released          bool
}

// Overhead implements rpc.Guard.
func (g *sealGuard) Overhead() rpc.Overhead {
	if g.service == SealWrap {
		return rpc.Overhead{Verifier: 4, Wraps: true, Before: 4, Behind: 4}
	}
	return rpc.Overhead{Verifier: 4}
}

// Unwrap implements rpc.Guard.
func (g *sealGuard) Unwrap(body []byte) (from, to int, ok bool) {
	if len(body) < 8 {
		return 0, 0, false
	}
	n := int(binary.BigEndian.Uint32(body))
	if n != len(body)-8 {
		return 0, 0, false
	}
	combine(body[4:4+n], g.key)
	return 4, 4 + n, crc32.ChecksumIEEE(body[4:4+n]) == binary.BigEndian.Uint32(body[4+n:])
}

// PutVerifier implements rpc.Guard.
func (g *sealGuard) PutVerifier(w *xdr.Writer) bool {
	w.Uint32(uint32(FlavorSeal))
	w.Uint32(4)
	w.Uint32(g.key ^ g.xid)
	return true
}

// Wrap implements rpc.Guard.
func (g *sealGuard) Wrap(w *xdr.Writer, from int) bool {
	if g.key == KeyBare {
		return false
	}
	words := w.Bytes()
	sum, length, at := uint32(0), 0, from
	take := func(b []byte) {
		sum = crc32.Update(sum, crc32.IEEETable, b)
		length += len(b)
		combine(b, g.key)
	}
	for _, p := range w.Payloads() {
		take(words[at:p.Position])
		at = p.Position
		take(p.Data)
		// The transport adds the payload's padding. Wrap does not change it, and the
		// checksum excludes it.
	}
	take(words[at:])
	binary.BigEndian.PutUint32(words[from-4:], uint32(length))
	w.Uint32(sum)
	g.seal.Wrapped.Add(1)
	return true
}

// Release implements rpc.Guard.
func (g *sealGuard) Release() {
	if g.released {
		panic("rpctest: Release of a guard twice")
	}
	g.released = true
	g.seal.Guards.Add(-1)
}

func combine(b []byte, key uint32) {
	for i := range b {
		b[i] ^= byte(key*31 + 7)
	}
}

// A sealMaker serves the call that makes a context.
type sealMaker struct{ sealGuard }

var sealProcedure = rpc.Procedure{Name: "SEAL", MaxArgs: 0, MaxResults: 4}

// Procedure implements rpc.Handler.
func (g *sealMaker) Procedure() *rpc.Procedure { return &sealProcedure }

// Serve implements rpc.Handler.
func (g *sealMaker) Serve(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
	if c.Args.Finish() != nil {
		return rpc.GarbageArgs
	}
	w.Uint32(g.seal.next.Add(1) - 1)
	return rpc.Done
}

// SealCred returns the credential of a call of the test program with the header h.
func SealCred(h rpc.CallHeader, service, key uint32) rpc.AuthBytes {
	w := xdr.NewWriter(make([]byte, 0, 128))
	rpc.PutCall(w, &h)
	header := append(make([]byte, 4, 24), w.Bytes()[4:24]...)
	b := make([]byte, 12)
	binary.BigEndian.PutUint32(b, service)
	binary.BigEndian.PutUint32(b[4:], key)
	binary.BigEndian.PutUint32(b[8:], sealSum(header, service, key))
	return rpc.AuthBytes{Flavor: FlavorSeal, Body: b}
}

// SealArgs returns a function that writes the arguments of args as SealWrap requires. Payloads are
// in the message, because no item may travel outside it.
func SealArgs(args func(w *xdr.Writer), key uint32) func(w *xdr.Writer) {
	plain := CallMessage(rpc.CallHeader{}, args)[40:]
	sum := crc32.ChecksumIEEE(plain)
	combine(plain, key)
	return func(w *xdr.Writer) {
		w.Uint32(uint32(len(plain)))
		w.FixedOpaque(plain)
		w.Uint32(sum)
	}
}

// Unseal removes the protection from the results, and returns a Decoder at the plain results. It
// returns false if d does not hold exactly the protected results, or if their checksum is wrong. d
// must be at the end of the reply's header. If the results contain a payload, the parameter payload
// is its length in bytes, and the parameter at is its offset in the plain results. The padding of
// the payload is not protected.
func Unseal(d *xdr.Decoder, key uint32, at, payload int) (*xdr.Decoder, bool) {
	n := int(d.Uint32())
	pad := xdr.Pad(payload)
	body := d.FixedOpaque(n + pad)
	sum := d.Uint32()
	if d.Finish() != nil {
		return nil, false
	}
	body = append([]byte(nil), body...)
	plain := append(append([]byte(nil), body[:at+payload]...), body[at+payload+pad:]...)
	combine(plain, key)
	ok := crc32.ChecksumIEEE(plain) == sum
	whole := append(append(append([]byte(nil), plain[:at+payload]...), make([]byte, pad)...), plain[at+payload:]...)
	return xdr.NewDecoder(whole), ok
}
