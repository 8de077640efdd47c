package exports

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

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
// the mounts that are part of the export. A location is nil if the directory cannot be opened, or not
// within locateWithin, or if the export's name is in stopped.
func locateExports(all []config.Export, stopped []string) []*location {
	type located struct {
		i  int
		at *location
	}
	each := make(chan located, len(all))
	for i := range all {
		if isStopped(&all[i], stopped) {
			each <- located{i, nil}
			continue
		}
		go func() {
			at, _ := locate(all[i].Path.Path)
			each <- located{i, at}
		}()
	}
	at := make([]*location, len(all))
	late := time.NewTimer(locateWithin)
	defer late.Stop()
	for range all {
		select {
		case one := <-each:
			at[one.i] = one.at
			continue
		case <-late.C:
		}
		break
	}
	findReached(all, at)
	return at
}

// findReached adds to the locations of exports the mounts that are part of the exports. A location
// may be nil.
func findReached(all []config.Export, at []*location) {
	names := make([]string, len(all))
	order := make([]int, len(all)) // as in a Table: a mount below two exports is part of the inner one
	taken := make(map[string]bool)
	for i := range all {
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
				return // then no mount below an export is found or served, either
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
		if inner == nil {
			continue
		}
		for j, outer := range all {
			if outer == nil || i == j {
				continue
			}
			if err := opens(outer, inner, at[j], at[i]); err != nil {
				return c.At(err, config.ExportKey(i))
			}
		}
	}
	return nil
}

// opens returns an error if the outer export, whose directory is at of, reaches the inner one, whose
// directory is at in, and is more open; otherwise nil. Two exports of one directory are apart.
func opens(outer, inner *export.Export, of, in *location) error {
	if inner.Nested || !of.reaches(in) || of.holds(in) && in.holds(of) {
		return nil
	}
	if why := outer.Opener(inner); why != "" {
		return opensInner(outer.Name, inner.Name, why, of, in)
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

// A leftOut is an export of the configuration that is not served.
type leftOut struct {
	*export.Export
	path string
	why  string // in the words of a relative clause
}

// exposed returns the reason why the mount m must not be part of the export top: a stricter export
// lies in it, or will when its directory can be opened. It returns "" if there is no such export.
// places has the places of the directories of all exports.
func exposed(top *export.Export, m *export.Found, exports []*export.Export, places map[vfs.FileSystem]place, out []leftOut) string {
	apart := func(inner *export.Export, lies string) string {
		if inner == top || inner.Nested {
			return ""
		}
		if why := top.Opener(inner); why != "" {
			return fmt.Sprintf("export %s %s, and %s %s: give both the same clients= and sec=, or add the option nested to %s where this is meant", inner.Name, lies, top.Name, why, inner.Name)
		}
		return ""
	}
	for _, inner := range exports {
		if !(place{m.Device, m.Root}).holds(places[inner.FS]) {
			continue
		}
		if why := apart(inner, "lies in it"); why != "" {
			return why
		}
	}
	for _, o := range out {
		if o.Name == m.Name {
			return fmt.Sprintf("it is export %s, %s", o.Name, o.why)
		}
		if o.path != m.Point && !strings.HasPrefix(o.path, m.Point+"/") {
			continue
		}
		if why := apart(o.Export, "will lie in it"); why != "" {
			return why
		}
	}
	return ""
}

// placesOf returns the places of the directories of exports. before is an earlier result: a directory
// that no path leads to any more still is where it was. all has the present mounts.
func placesOf(exports []*export.Export, before map[vfs.FileSystem]place, all []mountinfo.Mount) map[vfs.FileSystem]place {
	places := make(map[vfs.FileSystem]place, len(exports))
	for _, e := range exports {
		at := location{place: before[e.FS]}
		if at.update(e.FS, all); at.device != "" {
			places[e.FS] = at.place.cloned()
		}
	}
	return places
}

// update sets the mount, the name and the place of l to those that the root directory of fs has now.
// If no path leads to it any more, l stays as it is. all has the present mounts.
func (l *location) update(fs vfs.FileSystem, all []mountinfo.Mount) {
	placed, ok := vfs.As[vfs.Placed](fs)
	if !ok {
		return
	}
	mount, name, err := placed.Place(&vfs.Op{Cred: &vfs.Cred{}}, fs.Root())
	if err != nil {
		return
	}
	if now := placeIn(mountinfo.Find(all, mount), name); now.device != "" {
		l.mount, l.name, l.place = mount, name, now
	}
}

// copied returns a copy of l without the mounts that are part of the export.
func (l *location) copied() *location {
	c := *l
	c.mounts = nil
	return &c
}
