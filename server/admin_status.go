package server

import (
	"net/netip"
	"os"

	"github.com/nfsrdmad/nfsrdmad/server/admin"
)

// Status implements admin.Daemon.
func (a *administration) Status() *admin.Status {
	now, held, grace := a.count(), a.clients.Usage(), a.clients.InGrace()
	st := &admin.Status{
		Version: Version, PID: os.Getpid(), UID: os.Geteuid(), Started: a.started, State: "serving", Condition: a.condition(), StateDir: a.cfg.StateDir,
		TCP: addressTexts(a.TCPAddrs()), RDMA: addressTexts(a.RDMAAddrs()), RDMAVersions: a.cfg.RDMAVersions, Versions: a.cfg.NFS.Versions,
		Exports: now.exports["served"] + now.exports["kept"], Clients: a.clients.ConfirmedClients(), Opens: held.Opens, Locks: held.Ranges,
		Calls: int(now.calls.InProgress), Queued: now.calls.Queued, MemoryWaiting: int(now.memory.Waiting), Grace: grace,
		Memory: now.memory.InUse, Ceiling: now.memory.Ceiling, LogLevel: a.level.String(),
	}
	if a.draining.Load() {
		st.State = "draining"
	}
	for i := range now.transports {
		st.Connections += int(now.transports[i].open)
	}
	return st
}

func addressTexts(all []netip.AddrPort) (texts []string) {
	for _, a := range all {
		texts = append(texts, a.String())
	}
	return texts
}
