package server

import "testing"

// A principal maps to the user in the configuration or, in the server's own realm, to the
// user with its name. Other principals map to no user.
func TestUserOfPrincipal(t *testing.T) {
	p := &principals{
		realm: "EXAMPLE.ORG", format: "%u", named: map[string]string{"backup/host@EXAMPLE.ORG": "backup", "eve@EXAMPLE.ORG": "mallory"},
		account: func(user string) (uid, gid uint32, groups []uint32, ok bool, err error) {
			return map[string]uint32{"alice": 1000, "backup": 34, "mallory": 1001}[user], 100, nil, user != "unknown", nil
		},
	}
	for principal, uid := range map[string]uint32{
		"alice@EXAMPLE.ORG": 1000, "backup/host@EXAMPLE.ORG": 34, "eve@EXAMPLE.ORG": 1001,
	} {
		if got, _, _, ok, _ := p.identify(principal); !ok || got != uid {
			t.Errorf("%s is user %d, %v, want %d", principal, got, ok, uid)
		}
	}
	for _, principal := range []string{
		"alice@OTHER.ORG", "alice", "alice@", "alice/admin@EXAMPLE.ORG", `ali\ce@EXAMPLE.ORG`, "alice@EXAMPLE.ORG@EXAMPLE.ORG",
		"backup/host@OTHER.ORG", "unknown@EXAMPLE.ORG", "",
	} {
		if uid, _, _, ok, _ := p.identify(principal); ok {
			t.Errorf("%q is user %d", principal, uid)
		}
	}
	for format, user := range map[string]string{"%u@%d": "alice@example.org", "%u@%r": "alice@EXAMPLE.ORG", `%r\%u`: `EXAMPLE.ORG\alice`} {
		asked := ""
		p := &principals{realm: p.realm, format: format, account: func(user string) (_, _ uint32, _ []uint32, ok bool, _ error) {
			asked = user
			return 0, 0, nil, true, nil
		}}
		if _, _, _, ok, _ := p.identify("alice@EXAMPLE.ORG"); !ok || asked != user {
			t.Errorf("%s: asked for %q, want %q", format, asked, user)
		}
	}
	p.realm = ""
	if _, _, _, ok, _ := p.identify("alice@"); ok {
		t.Error("without a realm, every principal is a user")
	}
}
