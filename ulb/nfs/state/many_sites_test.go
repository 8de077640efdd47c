package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Clients of 150 sites, two of each, open as many files as they can, each by a new owner with the longest name, and free
// no stateid that the server revokes. Two clients of one address of another site, with more opens and locks than the part of
// their site, lose only what is beyond it. This holds also if they hear nothing of their loss meanwhile.
func TestManySitesLeaveAPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sites, files, memory = 150, 32, 16 << 20 * 3 / 8 // of memory.state = "16M"
		took := 0
		m := manager(t, Config{Memory: memory, Event: func(e *Event) {
			if e.Kind == Reduced || e.Kind == Taken {
				took++
				if e.Kind == Taken && strings.HasPrefix(e.Clients[0].Owner, "honest") {
					t.Errorf("%s is gone: %+v", e.Clients[0].Owner, e)
				}
			}
		}})
		defer m.Close()
		var honest []*Client
		opens := make(map[*Client][]StateID)
		for i := range 2 {
			c := clientFrom(t, m, "192.0.2.1", fmt.Sprint("honest ", i))
			honest = append(honest, c)
			for k := range files {
				owner := fmt.Appendf(nil, "holds %d", k)
				o, s := m.Open(&OpenArgs{Client: c, OwnerName: owner, Key: fileKey(k), Access: AccessRead})
				is(t, "OPEN", s, ok)
				_, _, s = m.Lock(&LockArgs{Ref: Ref{ID: o.ID, Client: c, Key: fileKey(k)}, New: true, OwnerName: owner, Length: 1})
				is(t, "LOCK", s, ok)
				opens[c] = append(opens[c], o.ID)
			}
		}
		var all []*Client
		for i := range 2 * sites {
			all = append(all, clientFrom(t, m, fmt.Sprintf("198.51.%d.1", i%sites), fmt.Sprint("hoard ", i)))
		}
		had := make([]int, len(all))
		for round := range 40 {
			for i, c := range all {
				for n := 0; n < 20; n++ {
					name := fmt.Appendf(nil, "%d %d%s", i, had[i], strings.Repeat("x", maxName-10))
					if _, s := m.Open(&OpenArgs{Client: c, OwnerName: name, Key: fileKey(1 << 20), Access: AccessRead}); s != ok {
						break
					}
					had[i]++
				}
			}
			time.Sleep(time.Duration(1+round%2) * 500 * time.Millisecond)
			for _, c := range slices.Concat(all, honest) {
				m.Renew(c)
			}
		}
		kept, part := 0, memory/(sites+2)
		for _, c := range honest {
			of := kept
			for i := range opens[c] {
				if _, s := m.Find(&opens[c][i], c); s == ok {
					kept++
				}
			}
			if k := &c.known.reclaim; kept-of < files && (!k.revoked || len(c.holding.revoked) == 0 && !k.untold) {
				t.Errorf("%s may reclaim what it does not know to be lost", c.Owner)
			}
		}
		const each = 2*sizeState + sizeFile + 2*(sizeOwner+len("holds 00")) + sizeRange
		t.Logf("kept %d of %d opens with locks, %d bytes; the part is %d; %d takings; %+v", kept, 2*files, kept*each, part, took, m.Usage())
		if (kept+1)*each < part {
			t.Errorf("the honest clients keep %d opens of %d bytes; their part is %d", kept, each, part)
		}
		if took == 0 {
			t.Error("nothing was taken")
		}
		if u := m.Usage(); u.Memory > memory {
			t.Errorf("%+v", u)
		}
	})
}

// A client whose site has no more than the floor keeps its opens, although there are so many other sites that the part of
// a site is smaller.
func TestASiteKeepsItsFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sites, memory = 2200, 16 << 20 * 3 / 8
		m := manager(t, Config{Memory: memory})
		defer m.Close()
		honest := clientFrom(t, m, "192.0.2.1", "honest")
		var opens []StateID
		for honest.memory()+sizeState+sizeFile+sizeOwner < memory/floors {
			opens = append(opens, open(t, m, honest, "o", fileKey(len(opens)), AccessRead, 0))
		}
		if has := honest.memory(); has <= memory/sites {
			t.Fatalf("the client has %d bytes, and the part of its site is %d", has, memory/sites)
		}
		var all []*Client
		for i := range sites {
			all = append(all, clientFrom(t, m, fmt.Sprintf("10.%d.%d.1", i>>8, i&255), fmt.Sprint("other ", i)))
		}
		refused := 0
		for range 6 {
			for _, c := range all {
				for i := range 2 { // so the honest client has more than any other
					if _, s := m.Open(&OpenArgs{Client: c, OwnerName: []byte("o"), Key: fileKey(1<<20 + i), Access: AccessRead}); s != ok {
						refused++
					}
				}
				m.Renew(c)
			}
			m.Renew(honest)
			time.Sleep(time.Second)
		}
		if u := m.Usage(); refused == 0 || u.Memory < memory*9/10 {
			t.Errorf("memory is not short: %d opens were refused, %+v", refused, u)
		}
		for i := range opens {
			_, s := m.Find(&opens[i], honest)
			is(t, "an open", s, ok)
		}
	})
}
