package nfs41

import (
	"encoding/binary"
	"testing"
)

// A session ID begins with the epoch of this run of the server. It finds the session as long as the
// session is in the table. The ID of a removed session does not find a later session with the same
// index.
func TestSessionIDs(t *testing.T) {
	table := &table{epoch: 0xe9000}
	first, second := new(Session), new(Session)
	for _, s := range []*Session{first, second} {
		if !table.add(s) {
			t.Fatal("the table is full")
		}
		if epoch := binary.BigEndian.Uint32(s.ID[:]); epoch != table.epoch {
			t.Errorf("ID %x begins with %#x, want %#x", s.ID, epoch, table.epoch)
		}
	}
	old := first.ID
	table.remove(first)
	next := new(Session)
	table.add(next)
	if table.find(&old) != nil || table.find(&second.ID) != second || table.find(&next.ID) != next {
		t.Error("an ID finds another session than its own")
	}
}
