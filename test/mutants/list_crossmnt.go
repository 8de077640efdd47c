package main

// crossmntMutants are those of what is mounted below exports.
var crossmntMutants = []mutant{
	{"what shows the machine is served as files", "ulb/nfs/export/mount.go",
		`	case m.Refused != "":
`,
		`	case false:
`,
		"ulb/nfs/export", "TestMountThatIsRefused"},
	{"an attempt opens the file system of a mount", "ulb/nfs/export/mount.go",
		`	case try:
		return nil, vfs.ErrWouldBlock
	}
	late`,
		`	}
	late`,
		"ulb/nfs/export", "TestMountSleepsAndWakes"},
	{"a mount that is gone is opened again", "ulb/nfs/export/mount.go",
		`	case m.gone:
		return nil, nil, syscall.ESTALE
`,
		"",
		"ulb/nfs/export", "TestMountIsGoneForGood"},
	{"each call waits for a mount that opens slowly", "ulb/nfs/export/mount.go",
		"case m.work != nil && time.Since(m.work.began) >= wakeWithin:",
		"case false:",
		"ulb/nfs/export", "TestMountThatOpensSlowly"},
	{"a call waits for as long as a mount takes to open", "ulb/nfs/export/mount.go",
		"late := time.NewTimer(wakeWithin)",
		"late := time.NewTimer(100 * wakeWithin)",
		"ulb/nfs/export", "TestMountThatOpensSlowly"},
	{"a mount that cannot be opened is tried by each call", "ulb/nfs/export/mount.go",
		"case m.refused != nil && time.Now().Before(m.retry):",
		"case false:",
		"ulb/nfs/export", "TestMountThatIsRefused"},
	{"a mount that could not be opened is never tried again", "ulb/nfs/export/mount.go",
		"m.refused, m.retry = errRefused, time.Now().Add(refusedFor)",
		"m.refused, m.retry = errRefused, time.Now().Add(1000*refusedFor)",
		"ulb/nfs/export", "TestMountThatIsRefused"},
	{"a reason that passes is taken for one that stands", "ulb/nfs/export/mount.go",
		`	case errors.Is(err, vfs.ErrDelay):
		m.refused`,
		`	case false:
		m.refused`,
		"ulb/nfs/export", "TestMountThatIsRefused"},
	{"a mount that went while it was opened stays open", "ulb/nfs/export/mount.go",
		`	case err == nil && m.gone:
		go m.close(w, fs, nil)
		return
`,
		"",
		"ulb/nfs/export", "TestMountThatOpensSlowly"},
	{"a mount keeps the options that its export had", "ulb/nfs/export/mount.go",
		`	m.asleep.Store(e)
	if old`,
		"	if old",
		"ulb/nfs/export", "TestMountIsWantedWhileItCloses"},
	{"a mount that is open keeps the options that its export had", "ulb/nfs/export/mount.go",
		`		m.rouse(old.FS)
		m.left`,
		"		m.left",
		"ulb/nfs/export", "TestMountIsWantedWhileItCloses"},
	{"calls by the former options are not waited for", "ulb/nfs/export/mount.go",
		`		m.left = append(m.left, old.Retire())
`,
		`		old.Retire()
`,
		"ulb/nfs/export", "TestMountIsHeldWhileItCloses"},
	{"a mount is put to sleep while a call is inside", "ulb/nfs/export/mount.go",
		"if entries, inside := e.use.entries(); inside || entries != m.entries || m.opener.InUse(e.FS) {",
		"if entries, _ := e.use.entries(); entries != m.entries || m.opener.InUse(e.FS) {",
		"ulb/nfs/export", "TestMountIsBusyWhileACallIsInside"},
	{"a mount is put to sleep between calls that follow each other", "ulb/nfs/export/mount.go",
		"inside || entries != m.entries || m.opener.InUse(e.FS) {",
		"inside || m.opener.InUse(e.FS) {",
		"ulb/nfs/export", "TestMountIsBusyWhileACallIsInside"},
	{"a mount rests at once", "ulb/nfs/export/mount.go",
		`	if now.Sub(m.rested) < after {
		return true
	}
`,
		"",
		"ulb/nfs/export", "TestMountIsBusyWhileACallIsInside"},
	{"a mount is closed although a call wants it meanwhile", "ulb/nfs/export/mount.go",
		"if !m.gone && (m.wanted || m.opener.InUse(fs)) {",
		"if !m.gone && m.opener.InUse(fs) {",
		"ulb/nfs/export", "TestMountIsWantedWhileItCloses"},
	{"a mount is closed over what clients opened at the last moment", "ulb/nfs/export/mount.go",
		"if !m.gone && (m.wanted || m.opener.InUse(fs)) {",
		"if !m.gone && m.wanted {",
		"ulb/nfs/export", "TestMountIsHeldWhileItCloses"},
	{"a mount that is gone is kept open for a call that wants it", "ulb/nfs/export/mount.go",
		"if !m.gone && (m.wanted || m.opener.InUse(fs)) {",
		"if m.wanted || m.opener.InUse(fs) {",
		"ulb/nfs/export", "TestMountIsGoneForGood"},
	{"a mount is closed while calls are inside", "ulb/nfs/export/mount.go",
		`	for _, idle := range left {
		<-idle
	}
`,
		`	_ = left
`,
		"ulb/nfs/export", "TestMountsGo"},
	{"a mount that is gone can be entered", "ulb/nfs/export/mount.go",
		`	m.gone = true
	if e := m.awake.Load(); e != nil {
		m.sleep(e)
	}
`,
		`	m.gone = true
`,
		"ulb/nfs/export", "TestMountsGo"},
	{"a handle of a mount that could not be opened is stale", "ulb/nfs/export/mount.go",
		`		err = vfs.ErrDelay
	}
	return now, err`,
		`		err = syscall.ESTALE
	}
	return now, err`,
		"ulb/nfs/export", "TestHandleOfAMountThatIsRefused"},
	{"a mount is for clients that its export does not serve", "ulb/nfs/export/mount.go",
		"case err != nil || !e.Serves(c):",
		"case err != nil:",
		"ulb/nfs/export", "TestMountServes"},
	{"what is not known is looked for by an attempt", "ulb/nfs/export/mount.go",
		`		case try:
			return nil, vfs.ErrWouldBlock
		case !t.missing():`,
		"		case !t.missing():",
		"ulb/nfs/export", "TestMissingMounts"},
	{"a client is told that nothing is mounted before it was looked for", "ulb/nfs/export/mount.go",
		`		case !t.missing():
			return nil, vfs.ErrDelay
`,
		`		case !t.missing():
`,
		"ulb/nfs/export", "TestMissingMounts"},
	{"a mount that is not served is an error of its own", "ulb/nfs/export/mount.go",
		`if e, err = e.mount.wake(try); errors.Is(err, errRefused) || errors.Is(err, syscall.ESTALE) {
		err = syscall.EXDEV`,
		`if e, err = e.mount.wake(try); errors.Is(err, syscall.ESTALE) {
		err = syscall.EXDEV`,
		"ulb/nfs/export", "TestMountThatIsRefused"},
	{"a mount hides an export of its name", "ulb/nfs/export/mounts.go",
		"if next.byName[f.Name] != nil || old.named(f.Name) != nil {",
		"if next.byName[f.Name] != nil {",
		"ulb/nfs/export", "TestMountServes"},
	{"the second mount of a name takes the place of the first", "ulb/nfs/export/mounts.go",
		"if next.byName[f.Name] != nil || old.named(f.Name) != nil {",
		"if old.named(f.Name) != nil {",
		"ulb/nfs/export", "TestMountsOfOneName"},
	{"another mount at the same place is taken for the first", "ulb/nfs/export/mount.go",
		"return f.ID == as.ID && f.Device",
		"return f.Device",
		"ulb/nfs/export", "TestMountsGo"},
	{"a mount is another one with each look", "ulb/nfs/export/mounts.go",
		"if m != nil && m.topName == f.Top.Name && m.same(f) {",
		"if false {",
		"ulb/nfs/export", "TestMountIsWantedWhileItCloses"},
	{"two mounts share an identity of handles", "ulb/nfs/export/mounts.go",
		"if old.byID[m.id] != nil || next.byID[m.id] != nil {",
		"if false {",
		"ulb/nfs/export", "TestMountsOfOneIdentity"},
	{"an export that loses crossmnt keeps its mounts", "ulb/nfs/export/mounts.go",
		"if top := s.named(m.topName); top == nil || !top.CrossMount || s.named(name) != nil {",
		"if top := s.named(m.topName); top == nil || s.named(name) != nil {",
		"ulb/nfs/export", "TestMountsGo"},
	{"a mount stays although an export has its name", "ulb/nfs/export/mounts.go",
		"if top := s.named(m.topName); top == nil || !top.CrossMount || s.named(name) != nil {",
		"if top := s.named(m.topName); top == nil || !top.CrossMount {",
		"ulb/nfs/export", "TestMountsGo"},
	{"mounts that are not there any more do not end", "ulb/nfs/export/mounts.go",
		`			m.End()
			gone`,
		"			gone",
		"ulb/nfs/export", "TestMountsGo"},
	{"procfs and its like are served", "server/mounts.go",
		"if machines[m.Kind] {",
		"if false {",
		"server", "TestMountsThatAreNoFiles"},
	{"more mounts are open than there are descriptors for", "server/mounts.go",
		"if len(w.open) < w.most {",
		"if true {",
		"server", "TestManyMounts"},
	{"a mount that idles is not closed for another one", "server/mounts.go",
		"if at, idle := o.Rested(); idle && (oldest",
		"if at, idle := o.Rested(); false && idle && (oldest",
		"server", "TestManyMounts"},
	{"a file that is mounted on is served as a directory", "server/mounts.go",
		"case sx.Mode&unix.S_IFMT != unix.S_IFDIR:",
		"case false:",
		"server", "TestMountsThatAreNoFiles"},
	{"a mount with the state directory is served", "server/mounts.go",
		`	if err := w.trees.apartFrom(fd); err != nil {
		return nil, err
	}
`,
		"",
		"server", "TestMountWithTheStateDirectory"},
	{"a refused mount is written of with each call", "server/mounts.go",
		"case w.refused[line] || n > mostRefusals:",
		"case n > mostRefusals:",
		"server", "TestMountsBelowAnExport"},
	{"a mount with open files can be unmounted", "server/mounts.go",
		"return ok && l.Stats().Pinned > 0",
		"return ok && l == nil",
		"server", "TestMountsComeAndGo"},
	{"what is mounted below an export is not closed when it idles", "server/mounts.go",
		`			m.Doze(mountIdle)
`,
		`			_ = m
`,
		"server", "TestMountsComeAndGo"},
	{"what a mount hides is found below it", "internal/mountinfo/tree.go",
		`		if hidden(points, p, len(prefix)) {
			continue
		}
`,
		"",
		"internal/mountinfo", "TestBelow"},
	{"the lower of two mounts at one place is found", "internal/mountinfo/tree.go",
		"if m := t.uppermost(&t.all[points[p]]); visit",
		"if m := &t.all[points[p]]; visit",
		"internal/mountinfo", "TestBelow"},
	{"what is mounted below what is not served is found", "internal/mountinfo/tree.go",
		"visit(m, under) {",
		"visit(m, under) || true {",
		"internal/mountinfo", "TestBelow"},
	{"a mount beside a directory is found below it", "internal/mountinfo/tree.go",
		"len(p) > len(prefix) && strings.HasPrefix(p, prefix) {",
		"len(p) > len(prefix) {",
		"internal/mountinfo", "TestBelow"},
	{"the number that a mount covers is that of its root", "ulb/nfs/pseudo/junction.go",
		"return a.MountedOn, err == nil && a.MountedOn != 0, err",
		"return a.FileID, err == nil && a.MountedOn != 0, err",
		"server", "TestMountsBelowAnExport"},
}
