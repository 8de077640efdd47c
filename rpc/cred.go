package rpc

// MaxAuthBytes is the longest body of an authenticator (RFC 5531 §8.2).
const MaxAuthBytes = 400

// MaxGroups is the most supplementary groups of AUTH_SYS (RFC 5531 §14).
const MaxGroups = 16

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
