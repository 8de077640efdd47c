package rdma

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// Properties are the transport properties that a peer of version 2 announces.
type Properties = wire.Properties

// versionMemory is what a client knows of the versions that its server speaks.
type versionMemory struct {
	mu sync.Mutex
	// refused is true once the server has said that it does not speak version 2.
	refused bool
	// silentUntil is the time until which the client does not propose version 2, because the server did
	// not answer the proposal, or refused that version after it had accepted it.
	silentUntil time.Time
}

// silentLife is how long a client does not propose version 2 again to a server that did not answer, or that refused
// the version on a connection of version 2.
const silentLife = 10 * time.Minute

// answerWait is how long a client waits for the answer to its proposal. A test makes it shorter.
var answerWait = 10 * time.Second

// errNoVersionAnswer is why a client ends a connection whose server does not answer the proposal of version 2.
var errNoVersionAnswer = errors.New("rdma: the server did not answer the proposal of version 2")

// ErrVersion2 is the error of a client with OnlyVersion2 whose server does not accept version 2.
var ErrVersion2 = errors.New("rdma: the server does not accept version 2 of RPC-over-RDMA")

// proposes reports whether a new connection begins with version 2.
func (m *versionMemory) proposes() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.refused && time.Now().After(m.silentUntil)
}

func (m *versionMemory) note(refused bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refused = m.refused || refused; !refused {
		m.silentUntil = time.Now().Add(silentLife)
	}
}

// connect makes a connection, and settles its version (draft-ietf-nfsv4-rpcrdma-version-two-07 §4.3.2). Its
// caller calls start. The client sends no call before that, so none is lost if the version changes. If a server
// refuses version 2, the client never proposes it again. If a server ends the connection or says nothing for
// answerWait, which old servers may do, the client connects once more, with version 1. If the server said nothing, the
// client does not propose version 2 for silentLife. If the server ended the connection, that may have had another
// reason, so the client proposes version 2 on its next connection. If the client may use version 2 only, connect
// fails in all these cases.
func (c *Client) connect(ctx context.Context) (*connection, error) {
	only := c.config.OnlyVersion2
	if !c.config.Version2 || !only && !c.versions.proposes() {
		return c.connectWith(ctx, false)
	}
	k, err := c.connectWith(ctx, true)
	if err != nil {
		return nil, err
	}
	v := k.framing.(*version2)
	decided := make(chan uint32, 1)
	v.decided = func(version uint32) { decided <- version }
	v.announce(0)
	k.start()
	version, silent := k.awaitVersion(ctx, decided)
	switch {
	case version == wire.Version2:
		return k, nil
	case version == wire.Version1 && only:
		k.device.Abort(ErrVersion2)
		return nil, ErrVersion2
	case version == wire.Version1:
		c.versions.note(true)
		if !k.over() {
			return k, nil
		}
		return c.connectWith(ctx, false)
	}
	if err := context.Cause(ctx); err != nil {
		k.device.Abort(err)
		return nil, err
	}
	k.device.Abort(errNoVersionAnswer)
	if only {
		return nil, fmt.Errorf("%w: it ended the connection or did not answer", ErrVersion2)
	}
	if silent {
		c.versions.note(false)
	}
	return c.connectWith(ctx, false)
}

// awaitVersion returns the version that comes from decided. It returns 0 if ctx or the connection ends before, or,
// with silent true, if the server says nothing for answerWait.
func (k *connection) awaitVersion(ctx context.Context, decided <-chan uint32) (version uint32, silent bool) {
	wait := time.NewTimer(answerWait)
	defer wait.Stop()
	select {
	case version = <-decided:
	case <-ctx.Done():
	case <-k.device.Done():
	case <-wait.C:
		silent = true
	}
	if version == 0 {
		select {
		case version = <-decided: // at the same time as the other event
		default:
		}
	}
	return version, silent
}

// over reports whether the connection has ended.
func (k *connection) over() bool {
	select {
	case <-k.device.Done():
		return true
	default:
		return false
	}
}
