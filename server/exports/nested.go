package exports

import (
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/server/config"
)

// keepExportsApart refuses an export within another one that serves more clients or accepts
// weaker flavors, unless it has the option nested. A file gets the options of the export through
// which a client reaches it, and clients can reach it through both: with NFSv3 they look its
// directory up, and a handle that one client got works for others. at are the locations of the
// exports' directories.
func keepExportsApart(all []config.Export, at []*location) error {
	for i, inner := range at {
		is, err := describe(&all[i])
		if inner == nil || err != nil || is.Nested {
			continue // opening it will fail with an explanation
		}
		for j, outer := range at {
			if outer == nil || !outer.holds(inner) || inner.holds(outer) {
				continue
			}
			around, err := describe(&all[j])
			if err != nil {
				continue
			}
			if why := around.Opener(is); why != "" {
				return &config.KeyError{Key: config.ExportKey(i), Err: fmt.Errorf("export %s lies in export %s, whose clients reach its files, too, and that %s: "+
					"give both the same clients= and sec=, or move one of them to another file system, or add the option nested where this is meant", is.Name, around.Name, why)}
			}
		}
	}
	return nil
}
