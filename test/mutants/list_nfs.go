package main

// nfsMutants are those of the upper layer, and of what it shares with others.
var nfsMutants = []mutant{
	{"root_squash keeps the caller's own group 0", "ulb/nfs/export/identify.go",
		`	if as.GID == 0 {
		as.GID = e.AnonGID
	}
`,
		"",
		"ulb/nfs/export", "TestSquashing"},
	{"root_squash keeps group 0 among the others", "ulb/nfs/export/identify.go",
		`			if g == 0 {
`,
		`			if false {
`,
		"ulb/nfs/export", "TestSquashing"},
	{"RENAME and LINK across exports", "ulb/nfs/nfs3/program.go",
		"	case o.Export.ID != r.export.ID:",
		"	case false:",
		"ulb/nfs/nfs3", "TestRenameAndLinkStayWithinAnExport"},
	{"RENAME and LINK across exports of one file system", "ulb/nfs/nfs3/program.go",
		"	case o.Export.ID != r.export.ID:",
		"	case o.Export.FS != r.export.FS:",
		"ulb/nfs/nfs3", "TestRenameAndLinkStayWithinAnExport"},
	{"WRITE takes the verifier after the write", "ulb/nfs/nfs3/data.go",
		`		Verf: verf,
`,
		`		Verf: [len(verf)]byte(r.fs().Verifier()),
`,
		"ulb/nfs/nfs3", "TestALossWhileWritingIsSeenByTheVerifier"},
	{"COMMIT takes the verifier before the commit", "ulb/nfs/nfs3/data.go",
		`	ch, err := r.fs().Commit(&r.op, r.handle, args.Offset, args.Count)
	if blocked(err) {
		return r.block()
	}
	res.Status = status(err)
	res.ResOK = wire.Commit3ResOK{FileWcc: wcc(&ch), Verf: wire.WriteVerf3(r.fs().Verifier())}
`,
		`	verf := wire.WriteVerf3(r.fs().Verifier())
	ch, err := r.fs().Commit(&r.op, r.handle, args.Offset, args.Count)
	if blocked(err) {
		return r.block()
	}
	res.Status = status(err)
	res.ResOK = wire.Commit3ResOK{FileWcc: wcc(&ch), Verf: verf}
`,
		"ulb/nfs/nfs3", "TestALossWhileWritingIsSeenByTheVerifier"},
	{"the guard of SETATTR compares seconds only", "vfs/mem/attributes.go",
		"*guard != n.attr.Ctime",
		"guard.Sec != n.attr.Ctime.Sec",
		"vfs/mem", "TestSuite"},
	{"the guard of SETATTR compares seconds only (vfs/local)", "vfs/local/setattr.go",
		"*guard != ch.Before.Ctime",
		"guard.Sec != ch.Before.Ctime.Sec",
		"vfs/local", "TestSuite"},
	{"the guard of SETATTR compares seconds only (vfs/billy)", "vfs/billy/setattr.go",
		"*guard != ch.Before.Ctime",
		"guard.Sec != ch.Before.Ctime.Sec",
		"vfs/billy", "TestSuiteMemory"},
	{"NFSv3's guard loses its nanoseconds", "ulb/nfs/nfs3/convert.go",
		"return vfs.Time{Sec: int64(t.Seconds), Nsec: t.Nanoseconds}",
		"return vfs.Time{Sec: int64(t.Seconds)}",
		"ulb/nfs/nfs3", "TestGuardedSetattr"},
	{"a change takes set-group-id without group execution", "vfs/mem/permission.go",
		`	if a.Mode&groupExec != 0 {
		a.Mode &^= setGID
	}
`,
		`	a.Mode &^= setGID
`,
		"vfs/mem", "TestSetGroupIDWithoutGroupExecutionStays"},
	{"a change leaves set-group-id", "vfs/mem/permission.go",
		`	if a.Mode&groupExec != 0 {
		a.Mode &^= setGID
	}
`,
		"",
		"vfs/mem", "TestSetGroupIDWithoutGroupExecutionStays"},
	{"COMMIT on a read-only export", "ulb/nfs/nfs3/judge.go",
		"Repeat != rpc.Anytime || p == wire.ProcCommit",
		"Repeat != rpc.Anytime",
		"ulb/nfs/nfs3", "TestReadOnlyExport"},
	{"changes on a read-only export", "ulb/nfs/nfs3/judge.go",
		"case e.ReadOnly && changes(p):",
		"case false:",
		"ulb/nfs/nfs3", "TestReadOnlyExport"},
	{"the seal cache takes what shares its slot", "ulb/nfs/export/handle.go",
		"o == nil || string(o.body()) != string(body)",
		"o == nil",
		"ulb/nfs/export", "TestRememberedHandlesAreNotMixedUp"},
	{"a handle is sealed like the one that shares its slot", "ulb/nfs/export/handle.go",
		"o != nil && string(o.body()) == string(body)",
		"o != nil",
		"ulb/nfs/export", "TestRememberedHandlesAreNotMixedUp"},
	{"a remembered handle needs no seal", "ulb/nfs/export/handle.go",
		"!hmac.Equal(o.seal(), seal) {",
		"!hmac.Equal(o.seal(), seal) && false {",
		"ulb/nfs/export", "TestNoBitOfASealedHandleCanBeChanged"},
	{"a remembered handle keeps an export that was replaced", "ulb/nfs/export/handle.go",
		"if o.set != now || o.Export != nil",
		"if o.set == nil || o.Export != nil",
		"ulb/nfs/export", "TestARememberedHandleFollowsTheTable"},
	{"an export is closed while calls use it", "ulb/nfs/export/use.go",
		"if u.calls[i].n.Load()&inside != 0 {",
		"if u.calls[i].n.Load()&inside < 0 {",
		"ulb/nfs/export", "TestRetiredExportIsIdleAfterTheLastCall TestRetireWhileCallsEnter"},
	{"a retired export lets calls in", "ulb/nfs/export/use.go",
		"if e.use.retired.Load() {",
		"if false {",
		"ulb/nfs/export", "TestRetiredExportIsIdleAfterTheLastCall"},
	{"a call that waited does not ask the export that there is now", "ulb/nfs/nfs3/judge.go",
		"		if why := refusalOf(e, c.Conn, proc); why != nil {",
		"		if why := (*refusal)(nil); why != nil {",
		"ulb/nfs/nfs3", "TestExportReplacedBeforeItsCallRuns"},
	{"a call does not leave its export", "ulb/nfs/nfs3/program.go",
		"		r.export.Leave(r.call.Conn)\n",
		"		_ = r.call.Conn\n",
		"ulb/nfs/nfs3", "TestExportReplacedWhileItsCallRuns"},
	{"EBUSY is JUKEBOX", "ulb/nfs/nfs3/status.go",
		"syscall.EBUSY: wire.NFS3ErrAccess,",
		"syscall.EBUSY: wire.NFS3ErrJukebox,",
		"ulb/nfs/nfs3", "TestMountPointsCannotBeRemoved"},
	{"EXPORT lists exports of others", "ulb/nfs/mount3/program.go",
		"e.ServesAddr(c.Peer.Addr()) && !yield(e)",
		"!yield(e)",
		"ulb/nfs/mount3", "TestListsShowOnlyExportsThatServeTheCaller"},
	{"DUMP lists mounts of others", "ulb/nfs/mount3/program.go",
		"e == nil || !e.ServesAddr(c.Peer.Addr())",
		"e == nil",
		"ulb/nfs/mount3", "TestListsShowOnlyExportsThatServeTheCaller"},
	{"the lists are hidden from ports that are not privileged", "ulb/nfs/mount3/program.go",
		"e.ServesAddr(c.Peer.Addr()) && !yield(e)",
		"e.Serves(c) && !yield(e)",
		"ulb/nfs/mount3", "TestListsShowOnlyExportsThatServeTheCaller"},
	{"a refusal of LINK has too few optional items", "ulb/nfs/nfs3/judge.go",
		"wire.ProcLink: 3",
		"wire.ProcLink: 2",
		"ulb/nfs/nfs3", "TestRefusalsHaveTheFormOfTheirProcedure"},
	{"a READ of nothing that would block releases no reference", "ulb/nfs/nfs3/data.go",
		`	if blocked(err) {
		return r.block()
	}
	res.Status = status(err)
	res.ResOK = wire.Read3ResOK`,
		`	if blocked(err) {
		r.held.Release()
		r.held = nil
		return r.block()
	}
	res.Status = status(err)
	res.ResOK = wire.Read3ResOK`,
		"ulb/nfs/nfs3", "TestReadOfNothing"},
	{"a procedure that panics keeps its payload memory", "ulb/nfs/nfs3/program.go",
		`	defer p.end(r)
`,
		`	defer func() {
		if v := recover(); v != nil {
			panic(v)
		}
		p.end(r)
	}()
`,
		"ulb/nfs/nfs3", "TestAPanicKeepsNoPayloadMemory"},
	{"an attempt of GETATTR is answered by a hesitant file system", "vfs/vfstest/hesitant.go",
		"\tif f.hesitates(op, \"GetAttr\") {",
		"\tif false {",
		"vfs/vfstest", "TestHesitantAttemptsReachNothing"},
	{"the suite does not look at a file that an attempt may cut", "vfs/vfstest/try.go",
		"if f.check && how.Mode == vfs.Unchecked {",
		"if false {",
		"vfs/vfstest", "TestSuiteFindsFaults"},
	{"a wrapper hides further interfaces", "vfs/further.go",
		"\t\tfs = w.Unwrap()",
		`		_ = w
		return t, false`,
		"vfs", "TestWhatWrapsAFileSystemKeepsItsFurtherInterfaces"},
	{"a panic of a detached call is answered in its place", "rpc/panic.go",
		"c.detached.Load() != detached",
		"false && detached != 0",
		"rpc", "TestAPanicOfADetachedCallIsNotAnsweredTwice"},
	{"every panic is reported", "rpc/panic.go",
		"again || len(f.reported) == maxPanics",
		"again && false",
		"rpc", "TestEachPlaceOfAPanicIsReportedOnce"},
	{"places of panics have no bound", "rpc/panic.go",
		"again || len(f.reported) == maxPanics",
		"again",
		"rpc", "TestPlacesOfPanicsAreBounded"},
	{"a panic in Complete is not recovered", "rpc/serve.go",
		"s.encode(c, w, results)",
		"results(w)",
		"rpc", "TestAPanicInComplete"},
	{"a panic in Serve is not recovered", "rpc/serve.go",
		"s.perform(c, w)",
		"c.state.program.Serve(c, w)",
		"rpc", "TestTheExecutorSurvivesAPanic"},
	{"payloads written before a panic are kept", "rpc/xdr/writer.go",
		`	if p.Ref != nil {
		p.Ref.Release()
	}
	*p = Payload{}`,
		"\t*p = Payload{}",
		"rpc", "TestAPanicGivesThePayloadsBack"},
	{"a panic while a call is judged is not recovered", "rpc/admit.go",
		`	defer s.caught(c, &out)
`,
		"",
		"rpc", "TestAPanicOfAProgramEndsItsCallOnly"},
	{"Count takes what is excised for room", "rpc/xdr/decoder.go",
		"\tif int64(n)*int64(size) > int64(d.Len()) {",
		`	room := int64(d.Len())
	for _, e := range d.excised {
		room += int64(len(e.Data))
	}
	if int64(n)*int64(size) > room {`,
		"rpc/xdr", "TestCountWithExcisedElements"},
	{"Count sees the stream up to the next excised item only", "rpc/xdr/decoder.go",
		"int64(n)*int64(size) > int64(d.Len())",
		"int64(n)*int64(size) > int64(d.end-d.off)",
		"rpc/xdr", "TestCountWithExcisedElements"},
	{"Count does not look at the stream", "rpc/xdr/decoder.go",
		"int64(n)*int64(size) > int64(d.Len())",
		"false",
		"rpc/xdr", "TestCountWithExcisedElements"},
	{"an empty item takes no chunk", "rpc/xdr/excised.go",
		"\tif d.err == nil && len(d.excised) > 0 {",
		"\tif d.err == nil && n > 0 && len(d.excised) > 0 {",
		"rpc/xdr", "TestExcisedEmptyItem"},
	{"an empty item takes any chunk", "rpc/xdr/excised.go",
		"\tif len(data) != n && len(data) != n+Pad(n) {",
		"\tif n > 0 && len(data) != n && len(data) != n+Pad(n) {",
		"rpc/xdr", "TestExcisedEmptyItem"},
	{"an empty item takes the next one's chunk", "rpc/xdr/excised.go",
		"\t\tcase int64(e.Position) == int64(d.Position()):",
		"\t\tcase n == 0 || int64(e.Position) == int64(d.Position()):",
		"rpc/xdr", "TestExcisedEmptyItem"},
	{"a reply goes to any call", "transport/tcp/caller.go",
		`	xid, _, _ := rpc.MessageType(m)
	x := k.claim(xid)
`,
		`	xid := uint32(0)
	k.mu.Lock()
	for id := range k.calls {
		xid = id
		break
	}
	k.mu.Unlock()
	x := k.claim(xid)
`,
		"transport/tcp", "TestRepliesOutOfOrder"},
	{"a caller that lost its connection connects again", "transport/tcp/dial.go",
		`		_, d.err = d.c.run()
`,
		`		_, d.err = d.c.run()
		if again, err := net.Dial("tcp", peer.String()); err == nil {
			defer again.Close()
		}
`,
		"transport/tcp", "TestCallLost"},
	{"a call is sent twice", "transport/tcp/caller.go",
		`	k.conn.out.put(nil, b, e.w.TakePayloads(), x)
`,
		`	twice := append([]byte(nil), b...)
	k.conn.out.put(nil, b, e.w.TakePayloads(), x)
	k.conn.out.put(nil, twice, nil, nil)
`,
		"transport/tcp", "TestCallLost"},
	{"calls are accepted after the connection was lost", "transport/tcp/caller.go",
		`	k.lost = true
`,
		`	k.lost = false
`,
		"transport/tcp", "TestCallLost"},
	{"a lost connection ends one call", "transport/tcp/caller.go",
		`		c.x.Err = rpc.ErrCallLost
		c.x.Done(c.x)
	}
`,
		`		c.x.Err = rpc.ErrCallLost
		c.x.Done(c.x)
		break
	}
`,
		"transport/tcp", "TestCallLost"},
	{"a call that stalls keeps the next ones out", "transport/tcp/config.go",
		"def(&c.MaxInFlight, 128)",
		"def(&c.MaxInFlight, 1)",
		"transport/tcp", "TestRepliesOutOfOrder"},
	{"NFSv3 READ asks no guard", "ulb/nfs/nfs3/data.go",
		"err := r.denied(r.handle, state.UseRead)",
		"err := error(nil)",
		"ulb/nfs/nfs3", "TestDenyModes"},
	{"NFSv3 WRITE asks no guard", "ulb/nfs/nfs3/data.go",
		"err := r.denied(r.handle, state.UseWrite)",
		"err := error(nil)",
		"ulb/nfs/nfs3", "TestDenyModes"},
	{"NFSv3 SETATTR of a size asks no guard", "ulb/nfs/nfs3/attributes.go",
		`	if r.set.SetSize {
		err = r.denied(r.handle, state.UseWrite)
	}
`,
		`	_ = state.UseWrite
`,
		"ulb/nfs/nfs3", "TestDenyModes"},
	{"NFSv3 CREATE cuts without the guard", "ulb/nfs/nfs3/names.go",
		"if r.how.Mode == vfs.Unchecked && r.how.Attr.SetSize {",
		"if false {",
		"ulb/nfs/nfs3", "TestDenyModes"},
	{"NFSv3 REMOVE asks no guard", "ulb/nfs/nfs3/names.go",
		"err := r.deniedName(r.handle, args.Object.Name, state.UseRemove)",
		"err := error(nil)",
		"ulb/nfs/nfs3", "TestDenyModes"},
	{"NFSv3 RENAME asks no guard for what it replaces", "ulb/nfs/nfs3/names.go",
		`			err = r.deniedName(to, args.To.Name, state.UseRemove)
`,
		"",
		"ulb/nfs/nfs3", "TestDenyModes"},
	{"NFSv3 RENAME asks no guard for what it moves", "ulb/nfs/nfs3/names.go",
		"err := r.deniedName(r.handle, args.From.Name, state.UseRemove)",
		"err := error(nil)",
		"ulb/nfs/nfs3", "TestDenyModes"},
	{"EJUKEBOX where a deny mode stands in the way of NFSv3", "ulb/nfs/nfs3/guard.go",
		`	return syscall.EACCES
`,
		`	return syscall.EAGAIN
`,
		"ulb/nfs/nfs3", "TestDenyModes"},
}
