package state

// A ClientKind says how a client introduces itself, and how its requests are sequenced. The records of clients on
// stable storage have these numbers.
type ClientKind uint32

// Kinds of clients.
const (
	// Minor0 is a client of minor version 0: SETCLIENTID, owners with numbered requests, and stateids that are all
	// that a request needs to act for the client.
	Minor0 ClientKind = 0
	// Sessions is a client of minor version 1 or later: each of its requests belongs to a session of it.
	Sessions ClientKind = 1
	// Host is a client of NFSv3's lock protocol, the Network Lock Manager (RFC 1813 appendix II). Its number is that
	// of the program. A host has no lease: what it has locked stays until it unlocks it, says that it has restarted
	// (ForgetHost), or the administrator takes it away. It does not confirm itself, and it never says that it has
	// reclaimed all.
	Host ClientKind = 100021
)

// numbered reports whether the owners of c number their requests. They have to be confirmed, and they stay for a
// while after they have lost their state, because the client may repeat its last request.
func (c *Client) numbered() bool { return c.Kind == Minor0 }

// isHost reports whether c is a Host.
func (c *Client) isHost() bool { return c.Kind == Host }

// completes reports whether the client says when it has reclaimed everything (RECLAIM_COMPLETE).
func (c *Client) completes() bool { return c.Kind == Sessions }

// secretID reports whether the client ID of c is a secret, because requests name the client by nothing else.
func (c *Client) secretID() bool { return c.Kind == Minor0 }
