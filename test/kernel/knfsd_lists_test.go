//go:build kernel

package kernel

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/server/admin"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// A told is a client at Linux's own server: what its files info and states say.
type told struct {
	info   map[string]string
	states []map[string]string
}

// knfsdsInfo has, for each key of /proc/fs/nfsd/clients/N/info, what the list of clients says in its place: the function
// returns false if that is something else.
var knfsdsInfo = map[string]func(told string, c *admin.Client) bool{
	"address": func(told string, c *admin.Client) bool {
		at, err := netip.ParseAddrPort(told)
		return err == nil && at.Addr().String() == c.Address
	},
	"status":                  func(told string, c *admin.Client) bool { return told == "confirmed" && c.Confirmed && !c.Expired },
	"seconds from last renew": func(_ string, c *admin.Client) bool { return time.Since(c.Seen) < time.Hour },
	// The name by minor version 0 has the server's address.
	"name": func(told string, c *admin.Client) bool {
		told, _, _ = strings.Cut(told, "/")
		name, _, _ := strings.Cut(c.Name, "/")
		return told == name
	},
	"minor version":         func(told string, c *admin.Client) bool { return c.Minor != nil && told == fmt.Sprint(*c.Minor) },
	"Implementation name":   func(told string, c *admin.Client) bool { return told == c.Implementation },
	"Implementation domain": func(told string, c *admin.Client) bool { return told == c.Domain },
	"callback state":        func(told string, c *admin.Client) bool { return strings.EqualFold(told, c.Callbacks) },
	"callback address": func(told string, c *admin.Client) bool {
		at, err := netip.ParseAddrPort(told)
		mine, _ := netip.ParseAddrPort(c.CallbackAddress)
		return err == nil && at.Addr() == mine.Addr() && mine.Port() != 0
	},
	"admin-revoked states": func(told string, c *admin.Client) bool { return told == fmt.Sprint(c.Revoked) },
}

// knfsdsStates are the keys of /proc/fs/nfsd/clients/N/states that the test compares.
var knfsdsStates = []string{"type", "access", "deny", "filename", "owner"}

// The lists of the administrator tell of clients, opens and locks what /proc/fs/nfsd/clients tells of the same scene at
// Linux's own server. docs/migration.md names each thing that they do not tell.
func TestListsBesideKnfsd(t *testing.T) {
	if !everything() {
		t.Skip("make test-all runs it")
	}
	needsDaemon(t)
	t.Parallel()
	s := serve(t, "sync")
	g := s.boot(lab.Options{Limit: 5 * time.Minute}, "scene")
	g.Await("settled")
	page, err := os.ReadFile("../../docs/migration.md")
	if err != nil {
		t.Fatal(err)
	}
	leftOut := func(file, key string) {
		t.Helper()
		if !strings.Contains(string(page), "| `"+file+"`: `"+key+"`") {
			t.Errorf("Linux's own server tells %q in %s, and neither a list nor docs/migration.md does", key, file)
		}
	}
	var clients []*admin.Client
	var opens []*admin.Open
	var locks []*admin.Lock
	await.Until(t, "the scene is in the lists", func() bool {
		clients, opens, locks = list[admin.Client](s, "clients"), list[admin.Open](s, "opens"), list[admin.Lock](s, "locks")
		return len(opens) == 5 && len(locks) == 4
	})
	theirs := readTold(t, g.Shared("knfsd"))
	if len(theirs) != 3 || len(clients) != 3 {
		t.Fatalf("%d clients at Linux's own server, %d at the daemon", len(theirs), len(clients))
	}
	for _, their := range theirs {
		i := slices.IndexFunc(clients, func(c *admin.Client) bool {
			return c.Minor != nil && fmt.Sprint(*c.Minor) == their.info["minor version"]
		})
		if i < 0 {
			t.Errorf("no client has minor version %s", their.info["minor version"])
			continue
		}
		c := clients[i]
		for key, value := range their.info {
			if compare := knfsdsInfo[key]; compare == nil {
				leftOut("info", key)
			} else if !compare(value, c) {
				t.Errorf("%s: %s: Linux's own server tells %q, the daemon %+v", c.Name, key, value, c)
			}
		}
		var states, mine []string
		for _, state := range their.states {
			for key := range state {
				if !slices.Contains(knfsdsStates, key) {
					leftOut("states", key)
				}
			}
			if state["owner"] == "" {
				t.Errorf("a state without an owner: %q", state)
			}
			states = append(states, strings.ReplaceAll(fmt.Sprintln(state["type"], filepath.Base(state["filename"]), "access", state["access"], "deny", state["deny"]), "-", ""))
		}
		for _, o := range opens {
			if o.Client == c.ID {
				mine = append(mine, fmt.Sprintln("open", filepath.Base(o.Path), "access", o.Access, "deny", o.Deny))
			}
		}
		for _, l := range locks {
			if l.Client == c.ID && !l.Waits {
				mine = append(mine, fmt.Sprintln("lock", filepath.Base(l.Path), "access", "", "deny", "")) // it tells no kind of locks
			}
		}
		slices.Sort(states)
		slices.Sort(mine)
		if !slices.Equal(states, mine) {
			t.Errorf("%s: Linux's own server tells\n%q, the daemon\n%q", c.Name, states, mine)
		}
	}
	g.Signal("compared")
	g.Succeed()
}

// list returns the answer to a command of the administrator.
func list[T any](s *server, command string) (all []*T) {
	s.t.Helper()
	out, err := s.network.Command(build(s.t, "cmd/nfsrdmad"), command, "--json", "--state-dir", filepath.Join(filepath.Dir(s.folder), "state")).Output()
	if err != nil {
		s.t.Fatalf("%s: %v", command, err)
	}
	if err := json.Unmarshal(out, &all); err != nil {
		s.t.Fatalf("%s: %v: %s", command, err, out)
	}
	return all
}

// aState is a line of the file states, and keyed a key in it, with a value that may be quoted.
var (
	aState = regexp.MustCompile(`^- 0x[0-9a-f]+: \{ (.*) \}$`)
	keyed  = regexp.MustCompile(`([a-z]+): ("(?:[^"\\]|\\.)*"|[^,]*)`)
)

// readTold reads the copies of /proc/fs/nfsd/clients/*/{info,states}.
func readTold(t *testing.T, folder string) (all []told) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		one := told{info: map[string]string{}}
		for _, name := range []string{"info", "states"} {
			text, err := os.ReadFile(filepath.Join(folder, e.Name(), name))
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s:\n%s", name, text)
			for line := range strings.Lines(string(text)) {
				line = strings.TrimSpace(line)
				if name == "info" {
					key, value, found := strings.Cut(line, ":")
					if !found {
						t.Fatalf("a line of info: %q", line)
					}
					one.info[key] = strings.Trim(strings.TrimSpace(value), `"`)
					continue
				}
				m := aState.FindStringSubmatch(line)
				if m == nil {
					t.Fatalf("a line of states: %q", line)
				}
				state := map[string]string{}
				for _, pair := range keyed.FindAllStringSubmatch(m[1], -1) {
					state[pair[1]] = strings.Trim(pair[2], `"`)
				}
				one.states = append(one.states, state)
			}
		}
		all = append(all, one)
	}
	return all
}
