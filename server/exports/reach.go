package exports

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/nfsrdmad/nfsrdmad/internal/mountinfo"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A reached is a mount that is part of an export with crossmnt.
type reached struct {
	place        // of the mount's root directory
	point string // the path where it is mounted
	name  string // the name of the export that the mount becomes
}

// reaches reports whether inner lies in what clients of an export at l reach: in its directory, or in
// a mount that is part of the export.
func (l *location) reaches(inner *location) bool { return l.holds(inner) || l.through(inner) != nil }

// through returns the mount by which clients of an export at l reach inner, or nil.
func (l *location) through(inner *location) *reached {
	if i := slices.IndexFunc(l.mounts, func(m reached) bool { return m.holds(inner.place) }); i >= 0 {
		return &l.mounts[i]
	}
	return nil
}

// locateExports returns the location of each export's directory, in the order of the argument, with
// the mounts that are part of the export. A location is nil if the directory cannot be opened;
// opening the export will then fail with an explanation.
func locateExports(all []config.Export) []*location {
	at := make([]*location, len(all))
	names := make([]string, len(all))
	order := make([]int, len(all)) // as in a Table: a mount below two exports is part of the inner one
	taken := make(map[string]bool)
	for i := range all {
		at[i], _ = locate(all[i].Path.Path)
		names[i], _ = all[i].ExportName() // opening the export will explain the error
		order[i], taken[names[i]] = i, true
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(names[b]) - len(names[a]) })
	var tree *mountinfo.Tree
	for _, i := range order {
		var e export.Export
		if all[i].Options.Apply(&e); !e.CrossMount || at[i] == nil {
			continue
		}
		if tree == nil {
			mounts, err := mountinfo.Read()
			if err != nil {
				return at // then no mount below an export is found or served, either
			}
			tree = mountinfo.NewTree(mounts)
		}
		tree.Below(at[i].mount, at[i].name, func(m, _ *mountinfo.Mount) bool {
			r := reached{place{m.Device, m.Root}, m.Point, mountName(names[i], at[i].name, m.Point)}
			if slices.Contains(machines, m.Kind) || taken[r.name] {
				return false
			}
			taken[r.name] = true
			at[i].mounts = append(at[i].mounts, r)
			return true
		})
	}
	return at
}

// mountName returns the name of the export that a mount becomes. The mount is mounted at the path
// point, below the directory dir of the export with the name top.
func mountName(top, dir, point string) string {
	return path.Join(top, strings.TrimPrefix(point, strings.TrimSuffix(dir, "/")))
}

// keepExportsApart compares each pair of an outer export and an inner export, whose directory lies
// in what the outer one reaches. It returns an error if the outer export serves more clients or
// accepts weaker flavors, unless the inner export has the option nested. The reason is that clients
// can access the inner export's files through the outer export, and then the options of the outer
// export apply: with NFSv3 they look up the inner directory, and with any version they can use a
// handle that another client got. The argument at has the result of locateExports.
func keepExportsApart(c *config.Config, at []*location) error {
	all := make([]*export.Export, len(at)) // nil if opening the export will fail with an explanation
	for i := range all {
		if at[i] != nil {
			all[i], _ = describe(&c.Exports[i])
		}
	}
	for i, inner := range all {
		if inner == nil || inner.Nested {
			continue
		}
		for j, outer := range all {
			if outer == nil || i == j || !at[j].reaches(at[i]) || at[j].holds(at[i]) && at[i].holds(at[j]) {
				continue
			}
			if why := outer.Opener(inner); why != "" {
				return c.At(opensInner(outer.Name, inner.Name, why, at[j], at[i]), config.ExportKey(i))
			}
		}
	}
	return nil
}

// opensInner returns the error that the outer export is more open than the inner one, which it
// reaches. why says in which way.
func opensInner(outer, inner, why string, of, in *location) error {
	const options = "give both the same clients= and sec=, %s, or add the option nested to %s where this is meant"
	m := of.through(in)
	if of.holds(in) || m == nil {
		return fmt.Errorf("export %s lies in export %s, whose clients reach its files, too, and that %s: "+
			options, inner, outer, why, "or move one of them to a file system that is not part of the other export", inner)
	}
	apart := "or take the option crossmnt from " + outer
	if m.place == in.place {
		// The mount's clients then get the inner export, with its own options.
		apart += fmt.Sprintf(", or give export %s the name %s", inner, m.name)
	}
	return fmt.Errorf("export %s lies in the file system mounted on %s, which is part of export %s because of its option crossmnt; the clients of %s reach its files, too, and it %s: "+
		options, inner, m.point, outer, outer, why, apart, inner)
}

// exposed returns the reason why the mount m must not be part of the export top: the directory of a
// stricter export lies in it. It returns "" if there is no such export. places has the places of the
// directories of all exports.
func exposed(top *export.Export, m place, exports []*export.Export, places map[vfs.FileSystem]place) string {
	for _, inner := range exports {
		if inner == top || inner.Nested || !m.holds(places[inner.FS]) {
			continue
		}
		if why := top.Opener(inner); why != "" {
			return fmt.Sprintf("export %s lies in it, and %s %s: give both the same clients= and sec=, or add the option nested to %s where this is meant", inner.Name, top.Name, why, inner.Name)
		}
	}
	return ""
}

// placesOf returns the places of the directories of exports. before is an earlier result: a directory
// that no path leads to any more still is where it was. all has the present mounts.
func placesOf(exports []*export.Export, before map[vfs.FileSystem]place, all []mountinfo.Mount) map[vfs.FileSystem]place {
	places := make(map[vfs.FileSystem]place, len(exports))
	for _, e := range exports {
		placed, ok := vfs.As[vfs.Placed](e.FS)
		if !ok {
			continue
		}
		now := before[e.FS]
		if mount, dir, err := placed.Place(&vfs.Op{Cred: &vfs.Cred{}}, e.FS.Root()); err == nil {
			if at := placeIn(mountinfo.Find(all, mount), dir); at.device != "" {
				now = at
			}
		}
		if now.device != "" {
			places[e.FS] = now.cloned()
		}
	}
	return places
}
