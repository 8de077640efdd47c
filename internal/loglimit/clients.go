package loglimit

import (
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/internal/fair"
	"github.com/nfsrdmad/nfsrdmad/internal/queue"
)

// Clients allows one line about each client and subject in each period Every. In that time it allows at
// most Each lines about one client, and Most lines about all of them, which it shares among sites and
// addresses by the rule of package fair. So a site whose clients cause many lines hides no line about
// another site, and a client has lines about several subjects. Any goroutine may call Due.
type Clients struct {
	Every      time.Duration
	Most, Each int

	mu      sync.Mutex
	subject map[subject]*clientLine
	recent  queue.List[clientLine, *clientLine] // by the time of the last line
	clients map[netip.Addr]*fair.Node[struct{}]
	room    fair.Tree[struct{}]
	// leftOut counts the lines that were left out because there were Most or Each, or whose subject is
	// forgotten.
	leftOut int
}

type subject struct {
	client netip.Addr
	about  string
}

type clientLine struct {
	queue.Links[clientLine]
	subject
	line
	of *fair.Node[struct{}]
}

// Due reports whether to write a line now about a client and a subject. If so, it also returns how many
// lines were left out since the last one: lines about the same, and lines beyond Each and Most. If not, it
// counts the line as left out.
func (l *Clients) Due(client netip.Addr, about string, now time.Time) (leftOut int, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgetLocked(now)
	s := subject{clientaddr.Of(client), about}
	if told := l.subject[s]; told != nil {
		told.leftOut++
		return 0, false
	}
	of := l.clients[s.client]
	if of == nil {
		of = &fair.Node[struct{}]{Address: s.client}
	}
	l.room.Size = int64(l.Most)
	if of.Held() >= int64(l.Each) || l.room.Free() == 0 || !l.room.MayBorrow(of, 1) {
		l.leftOut++
		return 0, false
	}
	if l.subject == nil {
		l.subject, l.clients = make(map[subject]*clientLine), make(map[netip.Addr]*fair.Node[struct{}])
	}
	told := &clientLine{subject: s, line: line{last: now}, of: of}
	l.clients[s.client], l.subject[s] = of, told
	l.recent.Add(told)
	l.room.Add(of, 1, 0)
	leftOut, l.leftOut = l.leftOut, 0
	return leftOut, true
}

// forgetLocked forgets the lines that were written a period ago.
func (l *Clients) forgetLocked(now time.Time) {
	for told := l.recent.First; told != nil && now.Sub(told.last) >= l.Every; told = l.recent.First {
		l.recent.Remove(told)
		delete(l.subject, told.subject)
		l.room.Add(told.of, -1, 0)
		if told.of.Held() == 0 {
			delete(l.clients, told.client)
		}
		l.leftOut += told.leftOut
	}
}
