package exports

import "github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"

// A Served is an export of the configuration, as it is served or not.
type Served struct {
	Name, Path string
	// Export is what is served; nil if nothing is.
	Export *export.Export
	// Fault says why the directory cannot be opened, or is "". If Export is not nil as well, the export is served with
	// the directory that it had before. Of a stopped export Fault says why the next start may serve it.
	Fault string
	// Stopped is true if the administrator has stopped the export.
	Stopped bool
}

// Served returns all exports of the configuration, in its order.
func (o *Offer) Served() (all []Served) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, w := range o.wanted {
		s := Served{Name: w.name, Path: w.Path.Path, Export: w.now, Stopped: w.stopped}
		switch {
		case w.err != nil:
			s.Fault = w.err.Error()
		case w.stopped && o.unrecorded != nil:
			s.Fault = "the next start of the daemon may serve it, because " + o.unrecorded.Error()
		}
		all = append(all, s)
	}
	return all
}
