package server

import "fmt"

// keepExportsApart refuses an export whose directory lies in that of another one that serves more
// clients, or takes weaker flavors, unless the option nested says that this is meant. A file has
// the options of the export that it is reached through, and clients reach it through either:
// with NFSv3 they look its directory up, and a handle that one got is good for others. at says
// where the directories are.
func (c *Config) keepExportsApart(at []*location) error {
	for i, inner := range at {
		is, err := c.Exports[i].describe()
		if inner == nil || err != nil || is.Nested {
			continue // to open it will fail, and say why
		}
		for j, outer := range at {
			if outer == nil || !outer.holds(inner) || inner.holds(outer) {
				continue
			}
			around, err := c.Exports[j].describe()
			if err != nil {
				continue
			}
			if why := around.Opener(is); why != "" {
				return &keyError{exportKey(i), fmt.Errorf("export %s lies in export %s, whose clients reach its files, too, and that %s: "+
					"give both the same clients= and sec=, or move one of them to another file system, or add the option nested where this is meant", is.Name, around.Name, why)}
			}
		}
	}
	return nil
}
