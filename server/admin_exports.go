package server

import (
	"github.com/nfsrdmad/nfsrdmad/server/admin"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
)

// Exports implements admin.Daemon: the exports of the configuration in its order, and then the mounts below them that are
// served (crossmnt).
func (a *administration) Exports() []*admin.Export {
	all := []*admin.Export{}
	if a.offer == nil {
		for _, e := range a.exports.Table.All() {
			all = append(all, inForce(e, &admin.Export{Name: e.Name, State: "served"}))
		}
		return all
	}
	for _, s := range a.offer.Served() {
		e := &admin.Export{Name: s.Name, Path: s.Path, Fault: s.Fault, State: "served"}
		switch {
		case s.Stopped:
			e.State = "stopped"
		case s.Export == nil:
			e.State = "not served"
		case s.Fault != "":
			e.State = "kept"
		}
		all = append(all, inForce(s.Export, e))
	}
	for _, m := range a.exports.Table.Mounts() {
		e := &admin.Export{Name: m.Name, Path: m.Point, State: "served", Fault: m.Refused}
		if m.Refused != "" {
			e.State = "not served"
			all = append(all, e)
			continue
		}
		all = append(all, inForce(m.Top, e))
	}
	return all
}

// inForce adds the options of an export to its description. e may be nil.
func inForce(e *export.Export, as *admin.Export) *admin.Export {
	if e != nil {
		as.Options, as.Everybody = config.OptionsOf(e), len(e.Clients) == 0
	}
	return as
}
