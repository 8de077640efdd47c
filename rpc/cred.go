package rpc

import (
	"errors"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

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
