package server

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/server/admin"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
)

// topEntries is the largest number of entries of a list in an admin.Top. topNames is that of the exports, clients and
// operations that are counted: calls of others beyond it count together.
const (
	topEntries = 20
	topNames   = 4096
)

// Top implements admin.Daemon. It counts the calls until ctx ends.
func (a *administration) Top(ctx context.Context) *admin.Top {
	t := topCount{by: map[topKey]*topSum{}}
	began := time.Now()
	stop := a.rpc.Trace(t.count)
	<-ctx.Done()
	stop()
	top := &admin.Top{Seconds: time.Since(began).Seconds(), Status: a.Status()}
	t.mu.Lock()
	defer t.mu.Unlock()
	top.Calls = t.calls
	for k, s := range t.by {
		e := admin.TopEntry{Name: k.name, Calls: s.calls, Failed: s.failed, Mean: float64(s.nanoseconds) / float64(s.calls) / 1e9, Longest: float64(s.longest) / 1e9}
		switch k.of {
		case topExport:
			switch {
			case k.export != 0:
				e.Name = a.exportName(k.export)
			case e.Name == "":
				e.Name = "-"
			}
			top.Exports = append(top.Exports, e)
		case topClient:
			top.Clients = append(top.Clients, e)
		case topOperation:
			top.Operations = append(top.Operations, e)
		}
	}
	for _, l := range []*[]admin.TopEntry{&top.Exports, &top.Clients, &top.Operations} {
		slices.SortFunc(*l, func(x, y admin.TopEntry) int {
			return cmp.Or(cmp.Compare(y.Calls, x.Calls), cmp.Compare(x.Name, y.Name))
		})
		*l = (*l)[:min(len(*l), topEntries)]
	}
	return top
}

func (a *administration) exportName(id uint32) string {
	if e := a.exports.Table.ByID(id); e != nil {
		return e.Name
	}
	return "-"
}

// A topKey names what calls are counted for: an export by its ID, a client or an operation by its name.
type topKey struct {
	of     int
	export uint32
	name   string
}

const (
	topExport = iota
	topClient
	topOperation
)

type topSum struct {
	calls, failed        uint64
	nanoseconds, longest int64
}

// A topCount counts calls.
type topCount struct {
	mu    sync.Mutex
	calls uint64
	by    map[topKey]*topSum
}

func (t *topCount) count(e *rpc.Ending) {
	var id uint32
	if o, ok := e.Subject.(*export.Opened); ok && o != nil {
		id = o.Export.ID
	}
	name := programName(e.Program) + " " + procedureOf(e)
	if n := len(e.Steps); n > 0 {
		name = "nfs4 " + operationName(mainStep(e.Steps))
		for i := n - 1; i >= 0 && id == 0; i-- {
			id = e.Steps[i].Group
		}
	}
	status := statusOf(e)
	failed := e.Status != rpc.StatusReplayed && status != rpc.StatusSuccess.String() && !strings.HasSuffix(status, "_OK")
	client := e.Conn.Peer.Addr().Unmap().String()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls++
	t.add(topKey{of: topExport, export: id}, e, failed)
	t.add(topKey{of: topClient, name: client}, e, failed)
	t.add(topKey{of: topOperation, name: name}, e, failed)
}

func (t *topCount) add(k topKey, e *rpc.Ending, failed bool) {
	s := t.by[k]
	if s == nil {
		if len(t.by) >= topNames {
			k.name, k.export = "others", 0
		}
		if s = t.by[k]; s == nil {
			s = new(topSum)
			t.by[k] = s
		}
	}
	s.calls++
	if failed {
		s.failed++
	}
	s.nanoseconds += e.Nanoseconds
	s.longest = max(s.longest, e.Nanoseconds)
}
