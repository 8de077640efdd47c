package rpc

import (
	"errors"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// MaxAuthBytes is the longest body of an authenticator (RFC 5531 §8.2).
const MaxAuthBytes = 400

// MaxGroups is the most supplementary groups of AUTH_SYS (RFC 5531 §14).
const MaxGroups = 16

// MaxMachineName is the longest machine name of AUTH_SYS (RFC 5531 §14).
const MaxMachineName = 255

// AuthBytes is an authenticator as it travels: flavor and body.
type AuthBytes struct {
	Flavor Flavor
	Body   []byte
}

// A Cred is a caller's identity after verification. Groups may alias the Cred
// itself: copy a Cred by pointer only.
type Cred struct {
	Flavor   Flavor
	UID, GID uint32
	Groups   []uint32
	// Machine is AUTH_SYS's machine name; it aliases the message.
	Machine []byte

	groups [MaxGroups]uint32
}

// machineAt is where the machine name starts in an AUTH_SYS body: after the
// stamp and its own length.
const machineAt = 8

// parse verifies the authenticators of a call as far as its flavor can be
// verified at all.
func (c *Cred) parse(h *CallHeader) AuthStat {
	c.Flavor, c.UID, c.GID, c.Groups, c.Machine = h.Cred.Flavor, 0, 0, nil, nil
	switch h.Cred.Flavor {
	case AuthNone:
	case AuthSys:
		if !c.parseSys(h.Cred.Body) {
			return AuthBadCred
		}
	default:
		return AuthRejectedCred
	}
	if h.Verf.Flavor != AuthNone {
		return AuthBadVerf
	}
	return AuthOK
}

// parseSys decodes an AUTH_SYS body (RFC 5531 §14), which must hold nothing
// else.
func (c *Cred) parseSys(body []byte) bool {
	var d xdr.Decoder
	d.Reset(body, 0, nil)
	d.Skip(4) // stamp: the caller's own
	c.Machine = d.Opaque(MaxMachineName)
	c.UID, c.GID = d.Uint32(), d.Uint32()
	n := d.Count(MaxGroups, 4)
	for i := range n {
		c.groups[i] = d.Uint32()
	}
	c.Groups = c.groups[:n]
	return d.Finish() == nil
}

// AuthSysCred is the AUTH_SYS authenticator of a caller (RFC 5531 §14). It
// fails where machine is longer than MaxMachineName or there are more than
// MaxGroups groups: whom to leave out is not for the codec to say.
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
