package rpc

import (
	"errors"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// A Protection implements one authentication flavor: it verifies the caller by the call's header,
// and returns the Guard that protects arguments and results. AUTH_NONE and AUTH_SYS are built in;
// Server.Protect adds others.
type Protection interface {
	// Verify checks the caller by the header alone (RFC 5531 §8.2), and fills in a.Cred. Done
	// accepts the call; Denied refuses it with a reason; Dropped and DropAndEnd end it without a
	// reply. The Guard protects this call and its reply. If the Guard is nil, arguments and results
	// are not protected, and the reply's verifier is AUTH_NONE. If the outcome is not Done, the
	// Guard must be nil. Verify may be called from many goroutines at once and must not block.
	Verify(a *Arrived) (Guard, Outcome)
}

// A Guard protects one call and its reply. The rpc package calls one method at a time, from
// several goroutines.
type Guard interface {
	// Overhead returns the number of bytes that the protection adds. It always returns the same
	// value.
	Overhead() Overhead
	// Unwrap removes the protection from the arguments in place: afterwards body[from:to] holds the
	// program's arguments. It returns false if the arguments were changed in transit or are
	// malformed; the server then replies GARBAGE_ARGS. The server calls Unwrap only if
	// Overhead.Wraps is set, and at most once. Unwrap may use the processor for as long as it
	// needs, but must not wait for other events.
	Unwrap(body []byte) (from, to int, ok bool)
	// PutVerifier writes the verifier of an accepted reply, flavor and body. If it returns false,
	// the server sends no reply.
	PutVerifier(w *xdr.Writer) bool
	// Wrap protects the results in place. The parameter from is their offset in w.Bytes(). Wrap
	// fills in the Overhead.Before bytes before them, and may append up to Overhead.Behind bytes.
	// If Overhead.Rewrites is set, it may change the bytes of the payloads. If it returns false,
	// the server does not send the results, because they are not protected.
	Wrap(w *xdr.Writer, from int) bool
	// Release is called once, when the server no longer needs the Guard.
	Release()
}

// Overhead is the size that a Guard adds to a call and its reply, in bytes.
type Overhead struct {
	// Verifier is the longest body of a reply's verifier, padding included.
	Verifier int
	// Wraps is true if arguments and results are protected. Then no item may travel outside the
	// message (RFC 8166 §8.2.2), and the server calls Judge only after Unwrap.
	Wraps bool
	// Before is the number of bytes that Wrap adds before the results. Behind is the largest number
	// that it adds after them. Both are multiples of four.
	Before, Behind int
	// Rewrites is true if Wrap changes the bytes of payloads. The rpc package therefore copies
	// payloads that are not in the call's own memory before it calls Wrap.
	Rewrites bool
}

// A Handler is a Guard that serves the call itself, instead of the program. A flavor uses it for
// control calls of its own, such as the creation of an RPCSEC_GSS context. The server calls neither
// Unwrap nor Wrap for such a call.
type Handler interface {
	Guard
	// Procedure returns the size limits of the call, like a row of a Binding.
	Procedure() *Procedure
	// Serve is like Service.Serve. w already holds a reply header with the verifier of PutVerifier.
	// To send another verifier, Serve truncates w to VerifierAt, and writes verifier, SUCCESS and
	// results.
	Serve(c *Call, w *xdr.Writer) Outcome
}

// protections maps each flavor to its Protection. The map is immutable: a change replaces it.
type protections map[Flavor]Protection

// Protect adds p for a flavor, or replaces the flavor's Protection.
func (s *Server) Protect(f Flavor, p Protection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := protections{f: p}
	for f, p := range *s.protections.Load() {
		if _, again := now[f]; !again {
			now[f] = p
		}
	}
	s.protections.Store(&now)
}

// verify lets the Protection of the call's flavor check the caller.
func (s *Server) verify(c *Call) Outcome {
	switch f := c.Header.Cred.Flavor; f {
	case AuthNone:
		return verifyNone(&c.Arrived)
	case AuthSys:
		return verifySys(&c.Arrived)
	default:
		p := (*s.protections.Load())[f]
		if p == nil {
			return Denied(AuthRejectedCred)
		}
		return s.verifyBy(p, c)
	}
}

func (s *Server) verifyBy(p Protection, c *Call) (out Outcome) {
	defer s.caught(c, &out)
	c.Cred.reset(c.Header.Cred.Flavor)
	g, out := p.Verify(&c.Arrived)
	c.state.guard = g
	if g != nil {
		c.state.overhead = g.Overhead()
	}
	return out
}

// maxUnwrapAtOnce is the longest message, in bytes, that the receiving goroutine unwraps itself,
// and the longest payload of results that it wraps itself. Longer ones go to the executor, because
// the next calls of the connection wait while the receiving goroutine computes.
const maxUnwrapAtOnce = 64 << 10

// wrapsMuch reports whether the Guard wraps results, and these may have more payload than
// maxUnwrapAtOnce.
func (st *callState) wrapsMuch() bool {
	return st.overhead.Wraps && st.plan.Results > maxUnwrapAtOnce
}

// unwrap removes the protection from the arguments. It returns false if the Guard could not remove
// it.
func (s *Server) unwrap(c *Call) (ok bool) {
	defer s.failed(c, &ok)
	st := &c.state
	st.sealed = false
	body := c.Message[c.Header.Size:]
	from, to, ok := st.guard.Unwrap(body)
	if !ok || from < 0 || to < from || to > len(body) {
		return false
	}
	st.from, st.behind = from, len(body)-to
	return true
}

// body returns the arguments in the current Message, without the bytes that Unwrap left around
// them.
func (c *Call) body() []byte {
	return c.Message[c.Header.Size+c.state.from : len(c.Message)-c.state.behind]
}

// putAccepted writes the header of an accepted reply with the verifier of the call's flavor. It
// returns false if PutVerifier failed.
func (c *Call) putAccepted(w *xdr.Writer, stat AcceptStat) bool {
	g := c.state.guard
	if g == nil {
		PutAccepted(w, c.Header.XID, stat)
		return true
	}
	w.Uint32(c.Header.XID)
	w.Uint32(uint32(TypeReply))
	w.Uint32(uint32(msgAccepted))
	if !g.PutVerifier(w) {
		return false
	}
	w.Uint32(uint32(stat))
	return true
}

// putResultsHeader writes everything before the results: the header of a successful reply, and
// space for Overhead.Before.
func (c *Call) putResultsHeader(w *xdr.Writer) bool {
	ok := c.putAccepted(w, Success)
	if n := c.state.overhead.Before; n > 0 {
		w.Reserve(n)
	}
	c.state.results = w.Len()
	return ok
}

// wrap protects the results, if the Guard wraps results. If it returns false, the server must not
// send them.
func (s *Server) wrap(c *Call, w *xdr.Writer) (ok bool) {
	st := &c.state
	if !st.overhead.Wraps {
		return true
	}
	defer s.failed(c, &ok)
	if st.overhead.Rewrites {
		c.ownPayloads(w)
	}
	return st.guard.Wrap(w, st.results) && !w.Overflow()
}

// ownPayloads copies all payloads that are not in the call's own memory, because other replies may
// refer to them: pages of a file, or a stored result (Kept).
func (c *Call) ownPayloads(w *xdr.Writer) {
	all := w.Payloads()
	for i := range all {
		p := &all[i]
		if c.Memory != nil && p.Ref == xdr.Releaser(c.Memory) {
			continue
		}
		p.Data = append([]byte(nil), p.Data...)
		if p.Ref != nil {
			p.Ref.Release()
			p.Ref = nil
		}
	}
}

// MaxAuthBytes is the longest body of an authenticator, in bytes (RFC 5531 §8.2).
const MaxAuthBytes = 400

// MaxGroups is the largest number of supplementary groups in AUTH_SYS (RFC 5531 §14).
const MaxGroups = 16

// MaxMachineName is the longest machine name of AUTH_SYS, in bytes (RFC 5531 §14).
const MaxMachineName = 255

// AuthBytes is an authenticator on the wire: flavor and body.
type AuthBytes struct {
	Flavor Flavor
	Body   []byte
}

// A Cred is a caller's verified identity. Groups may alias an array in the Cred itself, so do not
// copy a Cred by value.
type Cred struct {
	Flavor   Flavor
	UID, GID uint32
	Groups   []uint32
	// Machine is AUTH_SYS's machine name; it aliases the message.
	Machine []byte
	// Principal is the caller's name, such as user@REALM, if the flavor proves that name. Otherwise
	// it is "".
	Principal string
	// If Principal is set, Target is the name of this server that the caller authenticated to, such
	// as nfs/host@REALM. The server uses the same name in its callbacks to the client (RFC 7530
	// §3.3.3).
	Target string
	// Anonymous is true if the caller has proven that it is Principal, but Principal has no user
	// number on this machine. UID and GID are then NobodyID.
	Anonymous bool
	// Unsure is true if the server could not find out whether Principal has a user number.
	// Anonymous is set as well, but may be wrong: a program that acts for the caller has to tell
	// the client to try later.
	Unsure bool
	// GSS is the service by which RPCSEC_GSS protects the call, 0 for other flavors. Mechanism is
	// the object identifier of the RPCSEC_GSS mechanism: its content octets, which must not be
	// changed.
	GSS       GSSService
	Mechanism []byte

	groups [MaxGroups]uint32
}

// NobodyID is the user number and the group number of callers that have none on this machine. Linux
// uses the same number.
const NobodyID = 65534

// GSSService is the protection that RPCSEC_GSS gives a call and its reply (RFC 2203 §5.2.2).
type GSSService uint32

// Services of RPCSEC_GSS. GSSNone authenticates the header alone, GSSIntegrity also protects
// arguments and results against change, and GSSPrivacy encrypts them as well.
const (
	GSSNone      GSSService = 1
	GSSIntegrity GSSService = 2
	GSSPrivacy   GSSService = 3
)

// machineAt is the offset of the machine name in an AUTH_SYS body: after the stamp and the name's
// length.
const machineAt = 8

// verifyNone is the Protection of AUTH_NONE (RFC 5531 §8.2).
func verifyNone(a *Arrived) Outcome {
	a.Cred.reset(AuthNone)
	return verifierless(a)
}

// verifySys is the Protection of AUTH_SYS. It accepts the caller's numbers without proof.
func verifySys(a *Arrived) Outcome {
	a.Cred.reset(AuthSys)
	if !a.Cred.parseSys(a.Header.Cred.Body) {
		return Denied(AuthBadCred)
	}
	return verifierless(a)
}

// verifierless refuses a call that has a verifier although its flavor has none.
func verifierless(a *Arrived) Outcome {
	if a.Header.Verf.Flavor != AuthNone {
		return Denied(AuthBadVerf)
	}
	return Done
}

func (c *Cred) reset(f Flavor) {
	c.Flavor, c.UID, c.GID, c.Groups, c.Machine = f, 0, 0, nil, nil
	c.Principal, c.Target, c.Anonymous, c.Unsure, c.GSS, c.Mechanism = "", "", false, false, 0, nil
}

// parseSys decodes an AUTH_SYS body (RFC 5531 §14). It returns false if the body is malformed, or
// if the name or the list of groups is longer than RFC 5531 allows.
func (c *Cred) parseSys(body []byte) bool {
	var d xdr.Decoder
	d.Reset(body, 0, nil)
	d.Skip(4) // the stamp, which the server does not use
	c.Machine = d.Opaque(MaxMachineName)
	c.UID, c.GID = d.Uint32(), d.Uint32()
	n := d.Count(MaxGroups, 4)
	for i := range n {
		c.groups[i] = d.Uint32()
	}
	c.Groups = c.groups[:n]
	return d.Finish() == nil
}

// AuthSysCred returns a caller's AUTH_SYS authenticator (RFC 5531 §14). It fails if machine is
// longer than MaxMachineName, or if there are more than MaxGroups groups: the caller of
// AuthSysCred decides which groups to leave out.
func AuthSysCred(stamp uint32, machine string, uid, gid uint32, groups []uint32) (AuthBytes, error) {
	if len(machine) > MaxMachineName {
		return AuthBytes{}, errors.New("rpc: machine name is too long for AUTH_SYS")
	}
	if len(groups) > MaxGroups {
		return AuthBytes{}, errors.New("rpc: too many groups for AUTH_SYS")
	}
	size := machineAt + len(machine) + xdr.Pad(len(machine)) + 3*4 + 4*len(groups)
	w := xdr.NewWriter(make([]byte, 0, size))
	w.Uint32(stamp)
	w.String(machine)
	w.Uint32(uid)
	w.Uint32(gid)
	w.Uint32(uint32(len(groups)))
	for _, g := range groups {
		w.Uint32(g)
	}
	return AuthBytes{Flavor: AuthSys, Body: w.Bytes()}, nil
}
