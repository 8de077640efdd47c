package exports

import (
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/server/config"
)

// keepExportsApart compares each pair of an outer export and an inner export, whose directory lies
// in the outer one. It returns an error if the outer export serves more clients or accepts weaker
// flavors, unless the inner export has the option nested. The reason is that clients can access the
// inner export's files through the outer export, and then the options of the outer export apply:
// with NFSv3 they look up the inner directory, and with any version they can use a handle that
// another client got. The argument at has the locations of the exports' directories; a location is
// nil if the directory cannot be opened.
func keepExportsApart(all []config.Export, at []*location) error {
	for i, inner := range at {
		is, err := describe(&all[i])
		if inner == nil || err != nil || is.Nested {
			continue // it has the option nested, or opening it will fail with an explanation
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
