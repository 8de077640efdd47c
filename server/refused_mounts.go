package server

import (
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3"
)

// Lines of one client: one in this time, and one with the number of those that
// were left out. Beyond so many clients in this time, no lines.
const (
	refusalEvery   = 10 * time.Second
	refusalClients = 1024
)

// refusedMounts writes a line for a mount that is refused, so that the reason is
// found where it is looked for; a client that asks again and again makes few.
type refusedMounts struct {
	log *zap.Logger

	mu      sync.Mutex
	clients map[netip.Addr]*refusedClient
	// full counts those of clients for which there was no room.
	full int
}

type refusedClient struct {
	since   time.Time // its last line
	leftOut int
}

func newRefusedMounts(log *zap.Logger) *refusedMounts {
	return &refusedMounts{log: log, clients: make(map[netip.Addr]*refusedClient)}
}

// refused is told of each.
func (m *refusedMounts) refused(r *mount3.Refusal) {
	client := r.Client.Addr().Unmap()
	leftOut, due := m.due(client, time.Now())
	if !due {
		return
	}
	fields := []zap.Field{
		zap.Stringer("client", client), zap.Uint16("port", r.Client.Port()), zap.String("path", r.Path),
		zap.Stringer("reason", r.Reason), zap.Stringer("answer", r.Status),
	}
	if r.Export != nil {
		fields = append(fields, zap.String("export", r.Export.Name))
	}
	if leftOut > 0 {
		fields = append(fields, zap.Int("others_before", leftOut))
	}
	m.log.Warn("mount refused", fields...)
}

// due says whether a refusal makes a line now, and how many made none before.
func (m *refusedMounts) due(client netip.Addr, now time.Time) (leftOut int, due bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.clients[client]
	switch {
	case c == nil && len(m.clients) >= refusalClients:
		m.forget(now)
		if len(m.clients) >= refusalClients {
			m.full++
			return 0, false
		}
		fallthrough
	case c == nil:
		c = new(refusedClient)
		m.clients[client] = c
	case now.Sub(c.since) < refusalEvery:
		c.leftOut++
		return 0, false
	}
	leftOut, c.leftOut, c.since = c.leftOut+m.full, 0, now
	m.full = 0
	return leftOut, true
}

// forget drops the clients that had their line a while ago.
func (m *refusedMounts) forget(now time.Time) {
	for client, c := range m.clients {
		if now.Sub(c.since) >= refusalEvery {
			m.full += c.leftOut
			delete(m.clients, client)
		}
	}
}
