package state

import (
	"bytes"
)

// shareOwner returns the open-owner of a host's shares. No share has the open-owner on whose opens locks hang.
func shareOwner(owner []byte) []byte { return bytes.Join([][]byte{[]byte("share "), owner}, nil) }

// HostShare opens a file for an owner (a.OwnerName) of the host a.Client, with access and deny bits, in place of the
// owner's earlier share of the file. It first has the host recorded. The verdicts are those of Open and of Record.
func (m *Manager) HostShare(a *OpenArgs) (verdict Verdict) {
	a.OwnerName = shareOwner(a.OwnerName)
	if m.hostEnds(a.Client, a.Later) {
		return AfterDisk
	}
	switch s, first := m.MayHold(a.Client, KindOpen, a.Deny, a.Claimed); {
	case s != Granted:
		return s
	case first:
		if s = m.Record(a.Client, KindOpen, a.Deny, a.Later); s != Granted {
			return s
		}
	}
	m.Renew(a.Client)
	id, room := a.Key.id(), openRoomOf(a.Key.Domain)
	return m.denying(a, id, func(*Hold) (verdict Verdict) {
		if !m.settled(a.Later, func(g *guard) { verdict = g.hostShare(a, id, room) }) {
			return AfterDisk
		}
		return verdict
	})
}

func (g *guard) hostShare(a *OpenArgs, id fileID, room openRoom) Verdict {
	ref := Ref{Key: a.Key, Export: a.Export}
	s := g.findHostOpen(a.Client, a.OwnerName, &ref, id)
	if s != nil && s.isRevoked() {
		return TryLater // the server is about to end it
	}
	a.replaces = s // which stays as it is until then: callers look at its deny bits without the mutex
	_, verdict := g.open(a, id, room)
	return verdict
}

// HostUnshare ends the share of a file that an owner of a host has, if it has one.
func (m *Manager) HostUnshare(host *Client, owner []byte, r *Ref) {
	id := r.Key.id()
	g := m.acquire()
	defer g.release()
	if s := g.findHostOpen(host, shareOwner(owner), r, id); s != nil {
		g.drop(s)
	}
}
