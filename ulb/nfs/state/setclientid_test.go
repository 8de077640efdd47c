package state

import (
	"testing"
)

func TestSetClientID(t *testing.T) {
	m := manager(t, Config{})
	defer m.Close()
	id := identity("client", 1, "me")
	first := m.SetClientID(id, Callback{Program: 1})
	is(t, "a wrong verifier", m.ConfirmClientID(first.Client.ID, Verifier{1}, "me"), NoClient)
	is(t, "somebody else", m.ConfirmClientID(first.Client.ID, first.Confirm, "you"), NameTaken)
	is(t, "no client", m.ConfirmClientID(first.Client.ID+1, first.Confirm, "me"), NoClient)
	second := m.SetClientID(identity("client", 1, "me"), Callback{Program: 2})
	if second.Client == first.Client || second.Confirm == first.Confirm {
		t.Error("an unconfirmed client was not replaced")
	}
	is(t, "the one that was replaced", m.ConfirmClientID(first.Client.ID, first.Confirm, "me"), NoClient)
	for range 2 { // the client repeats it, because the first answer may be lost
		is(t, "confirmation", m.ConfirmClientID(second.Client.ID, second.Confirm, "me"), Granted)
	}

	// A new callback takes effect at its confirmation.
	update := m.SetClientID(id, Callback{Program: 3})
	if update.Client != second.Client || update.Confirm == second.Confirm {
		t.Errorf("%+v", update)
	}
	if cb := m.CallbackOf(second.Client); cb.Program != 2 {
		t.Errorf("callback %d before it was confirmed", cb.Program)
	}
	is(t, "somebody else's update", m.ConfirmClientID(update.Client.ID, update.Confirm, "you"), NameTaken)
	is(t, "the update", m.ConfirmClientID(update.Client.ID, update.Confirm, "me"), Granted)
	is(t, "the verifier of before", m.ConfirmClientID(update.Client.ID, second.Confirm, "me"), NoClient)
	if cb := m.CallbackOf(second.Client); cb.Program != 3 || of(second.Client).gone.Load() != 0 {
		t.Errorf("callback %d", cb.Program)
	}

	// The confirmation of a new incarnation removes the state of the old one.
	next := m.SetClientID(identity("client", 2, "me"), Callback{})
	if next.Client == second.Client || of(second.Client).gone.Load() != 0 {
		t.Errorf("%+v", next)
	}
	is(t, "the restart", m.ConfirmClientID(next.Client.ID, next.Confirm, "me"), Granted)
	if of(second.Client).gone.Load() != 1 {
		t.Error("the old client is still there")
	}

	// Another client may take the name of a client without state.
	other := m.SetClientID(identity("client", 1, "you"), Callback{})
	is(t, "another principal", other.Verdict, Granted)
	if m.Client(next.Client.ID) != nil {
		t.Error("two clients have one name")
	}
}

// Clients of minor version 0 and of later versions have separate names.
func TestNamesOfMinorVersions(t *testing.T) {
	m := manager(t, Config{})
	defer m.Close()
	a, b := v40(t, m, identity("client", 1, "me")), confirmed(t, m, identity("client", 1, "me"))
	if m.Client(a.ID) != a || m.Client(b.ID) != b {
		t.Error("one client has displaced the other")
	}
	is(t, "a later client", m.ConfirmClientID(b.ID, Verifier{}, "me"), NoClient)
}
