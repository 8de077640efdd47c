package client

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// Errors of requests on a session.
var (
	// ErrSessionClosed means that the Session was closed.
	ErrSessionClosed = errors.New("client: session closed")
	// ErrDoubtful means that the connection ended before the reply came, and the session was lost
	// before the request could be sent again. The server may or may not have executed the
	// request.
	ErrDoubtful = errors.New("client: session lost before the reply came")
	// ErrEndsConnections means that one connection after another ended when a request had been sent on
	// it. The server may or may not have executed the request.
	ErrEndsConnections = errors.New("client: one connection after another ended before the reply came")
)

// A SessionConfig names a server and the parameters of a session. A field that is 0 has the
// default in its comment.
type SessionConfig struct {
	// Target is the server. Its Reconnect is not used, because a session itself replaces lost
	// connections.
	Target
	// Trunk lists further addresses or transports of the same server. The session's Connections
	// go to Target and these in turn (RFC 8881 §2.10.5).
	Trunk []Target
	// Minor is the minor version: 1 or 2; default 2.
	Minor uint32
	// Owner is the name of the client; by default, a name that no other session has. Verifier
	// differs between runs of one client; by default, a random number (RFC 8881 §2.4).
	Owner    []byte
	Verifier nfs4wire.Verifier4
	// Slots is the largest number of requests in progress at a time; default 64. Connections is the
	// number of connections that they share; by default, one to Target and one to each element of
	// Trunk.
	Slots, Connections int
	// Callbacks has the functions that serve the server's callbacks.
	Callbacks Callbacks
	// Reclaiming is true if the session does not send RECLAIM_COMPLETE. In that case the caller of
	// DialSession calls ReclaimComplete after it has reclaimed its state, at the start and after
	// each Callbacks.Restarted.
	Reclaiming bool
	// Timeout is the longest time for each step of setting up and ending: connecting, or one call;
	// default 10 s.
	Timeout time.Duration
}

func (cfg SessionConfig) withDefaults() SessionConfig {
	cfg.Minor = cmp.Or(cfg.Minor, 2)
	cfg.Slots = min(cmp.Or(max(cfg.Slots, 0), 64), maxSlots)
	cfg.Connections = cmp.Or(max(cfg.Connections, 0), 1+len(cfg.Trunk))
	cfg.Timeout = cmp.Or(max(cfg.Timeout, 0), 10*time.Second)
	if cfg.Owner == nil {
		host, _ := os.Hostname() // without a host name, the random text alone identifies the owner
		cfg.Owner = fmt.Appendf(nil, "nfsrdmad %s %d %s", host[:min(len(host), 255)], os.Getpid(), rand.Text())
	}
	if cfg.Verifier == (nfs4wire.Verifier4{}) {
		rand.Read(cfg.Verifier[:])
	}
	return cfg
}

// target returns the server address of the connection with this number.
func (cfg *SessionConfig) target(number int) Target {
	t := cfg.Target
	if i := number % (1 + len(cfg.Trunk)); i > 0 {
		t = cfg.Trunk[i-1]
	}
	if t.Security != nil && t.Security.Version == 0 {
		s := *t.Security
		s.Version = nfs4wire.Version
		t.Security = &s
	}
	t.Depth = max(t.Depth, cfg.Slots)
	t.Reconnect = false
	return t
}

// maxSlots is the largest number of slots that a session uses, whatever the server offers.
const maxSlots = 1024

// Limits that a session asks for. Sizes are in bytes; maxOperations is the number of operations
// of one COMPOUND.
const (
	maxRequest    = MaxTransfer + 64<<10
	maxKeptReply  = 8 << 10
	maxOperations = 16
	maxCallback   = 4096
)

// compoundBinding says which data of a COMPOUND the transport may place directly, and how long
// arguments and results may be (RFC 8267).
var compoundBinding = &nfs.Binding4.Procedures[nfs4wire.ProcCompound]
