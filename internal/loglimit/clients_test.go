package loglimit

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

const most = 128

func address(site, client int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(site >> 8), byte(site), byte(client)})
}

// Each subject of a client has its line. A client with many subjects, and a site with many clients, leave
// lines for other sites.
func TestLinesAreSharedBySite(t *testing.T) {
	for name, flood := range map[string]func(i int) netip.Addr{
		"one client": func(int) netip.Addr { return address(1, 1) },
		"a site":     func(i int) netip.Addr { return address(1, i%250) },
		"ten sites":  func(i int) netip.Addr { return address(1+i%10, i/10%250) },
	} {
		t.Run(name, func(t *testing.T) {
			l := Clients{Every: every, Most: most, Each: 8}
			now := time.Unix(1000, 0)
			written := make(map[netip.Addr]int)
			all := 0
			for i := range 2000 {
				if _, due := l.Due(flood(i), fmt.Sprint(i), now); due {
					all++
					written[flood(i)]++
				}
			}
			for a, n := range written {
				if n > 8 {
					t.Errorf("%d lines about %v", n, a)
				}
			}
			if all > most-2 {
				t.Errorf("%d lines in a period", all)
			}
			for i, about := range []string{"a wrong name", "a name that it may not mount"} {
				leftOut, due := l.Due(address(200, 1), about, now)
				if !due {
					t.Errorf("no line about %s of another client", about)
				}
				if i == 0 && leftOut != 2000-all {
					t.Errorf("%d lines are left out, the line says %d", 2000-all, leftOut)
				}
			}
			l.Due(address(201, 1), "later", now.Add(every))
			if len(l.subject) != 1 || len(l.clients) != 1 || l.recent.Len != 1 || l.room.Held() != 1 {
				t.Errorf("after a period, %d subjects and %d clients are remembered", len(l.subject), len(l.clients))
			}
		})
	}
}

// A subject that repeats causes a line in each period, and each event has a line or is counted in one.
func TestRepeatedSubjectIsCounted(t *testing.T) {
	l := Clients{Every: every, Most: most, Each: 8}
	now, asked, stands := time.Unix(1000, 0), 0, 0
	for range 50 {
		for range 7 {
			asked++
			if leftOut, due := l.Due(address(1, 1), "again", now); due {
				stands += 1 + leftOut
			}
			now = now.Add(time.Second)
		}
	}
	asked++
	if leftOut, due := l.Due(address(1, 2), "last", now.Add(every)); due {
		stands += 1 + leftOut
	}
	if asked != stands {
		t.Errorf("lines stand for %d of %d events", stands, asked)
	}
}

// Lines about very many clients are at most Most in a period, and so are the clients that are remembered.
// Later lines count all that were left out.
func TestLinesStandForAllThatWereLeftOut(t *testing.T) {
	l := Clients{Every: every, Most: most, Each: 8}
	now, lines, stands := time.Unix(1000, 0), 0, 0
	ask := func(a netip.Addr) bool {
		leftOut, due := l.Due(a, "a subject", now)
		if due {
			lines++
			stands += 1 + leftOut
		}
		return due
	}
	const asked = 5000
	for i := range asked {
		ask(address(i, 1))
	}
	if lines != most || len(l.subject) != most || len(l.clients) != most {
		t.Errorf("%d lines about %d clients, %d are remembered", lines, asked, len(l.clients))
	}
	now = now.Add(every)
	if !ask(address(asked, 1)) {
		t.Error("no line after a period")
	}
	if stands != asked+1 || len(l.clients) != 1 {
		t.Errorf("lines stand for %d of %d, %d clients are remembered", stands, asked+1, len(l.clients))
	}
}
