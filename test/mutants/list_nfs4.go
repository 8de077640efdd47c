package main

// nfs4Mutants are those of the operations of NFSv4, and of the flavors of exports.
var nfs4Mutants = []mutant{
	{"RFC 7530 §9.1.7: BAD_SEQID counts", "ulb/nfs/nfs4/turn.go",
		"wire.NFS4ErrBadStateID, wire.NFS4ErrBadSeqID,",
		"wire.NFS4ErrBadStateID,",
		"ulb/nfs/nfs40", "TestStateIDsOfLocks"},
	{"RFC 7530 §9.1.7: an operation that failed does not count", "ulb/nfs/nfs4/turn.go",
		`	return s >= 0
`,
		`	return s == 0
`,
		"ulb/nfs/nfs40", "TestRestart TestUnconfirmedOpenEnds"},
	{"RFC 7530 §16.18.4: OPEN_CONFIRM out of order leaves the open", "ulb/nfs/nfs4/turn.go",
		`			m.Abandon(o)
`,
		`			_ = o
`,
		"ulb/nfs/nfs40", "TestOpenConfirmThatCannotBe"},
	{"the lease of minor version 0 is not renewed by a stateid", "ulb/nfs/nfs4/stateid.go",
		`	if k.Minor == 0 {
		m.Renew(st.Client)
	}
`,
		"",
		"ulb/nfs/nfs40", "TestLeaseIsRenewed"},
	{"the lease of minor version 0 is not renewed by an owner's request", "ulb/nfs/nfs4/turn.go",
		`		k.Program.state.Renew(o.Client)
`,
		`		_ = o.Client
`,
		"ulb/nfs/nfs40", "TestLeaseIsRenewed"},
	{"RFC 8881 §8.4.2: a record comes after what it is for", "ulb/nfs/nfs4/open.go",
		`	case blocked:
		return o.k.Block(o.k.FS().Lane())
	case err != nil:
		return wire.NFS4ErrDelay
`,
		`	case blocked:
		return o.k.Block(o.k.FS().Lane())
	case err != nil:
`,
		"ulb/nfs/nfs40", "TestNothingIsOpenedWithoutARecord"},
	{"RFC 8881 §8.2.3: the bypass stateid is held up by deny modes", "ulb/nfs/nfs4/stateid.go",
		"case want == state.AccessRead && *id == state.Bypass:",
		"case want == state.AccessRead && *id == state.InvalidID:",
		"ulb/nfs/nfs4", "TestDenyModesAgainstSpecialStateids"},
	{"RFC 8881 §9.1.2: the bypass stateid bypasses for WRITE too", "ulb/nfs/nfs4/stateid.go",
		"case want == state.AccessRead && *id == state.Bypass:",
		"case *id == state.Bypass:",
		"ulb/nfs/nfs4", "TestDenyModesAgainstSpecialStateids"},
	{"special stateids read and write during grace", "ulb/nfs/nfs4/stateid.go",
		`	case m.InGrace():
		return wire.NFS4ErrGrace
`,
		"",
		"ulb/nfs/nfs4", "TestGrace"},
	{"RFC 8881 §16.2.3.1.2: a stateid goes with another file handle", "ulb/nfs/nfs4/compound.go",
		`	k.Current = o
	k.HasStateID = false
`,
		`	k.Current = o
`,
		"ulb/nfs/nfs4", "TestCurrentStateidBelongsToItsHandle"},
	{"RFC 8881 §16.2.3.1.2: SAVEFH leaves the stateid", "ulb/nfs/nfs4/handle.go",
		"k.Saved, k.SavedStateID, k.HasSavedStateID = k.Current, k.StateID, k.HasStateID",
		"k.Saved = k.Current",
		"ulb/nfs/nfs4", "TestCurrentStateid"},
	{"RFC 8881 §8.2.3: CLOSE takes the current stateid under any seqid", "ulb/nfs/nfs4/stateid.go",
		`	if k.Number != wire.OpClose && k.Number != wire.OpOpenDowngrade {
		r.ID.Seqid = 0
	}
`,
		`	r.ID.Seqid = 0
`,
		"ulb/nfs/nfs4", "TestCurrentStateidBelongsToItsHandle"},
	{"RFC 8881 §8.2.3: READ takes the current stateid under its seqid alone", "ulb/nfs/nfs4/stateid.go",
		"if k.Number != wire.OpClose && k.Number != wire.OpOpenDowngrade {",
		"if k.Number != wire.OpClose && k.Number != wire.OpOpenDowngrade && k.Number != wire.OpRead {",
		"ulb/nfs/nfs4", "TestCurrentStateidBelongsToItsHandle"},
	{"RFC 8881 §18.2.4: CLOSE leaves a stateid that looks good", "ulb/nfs/nfs4/close.go",
		`			id = state.InvalidID // RFC 8881 §18.2.4
`,
		`			_ = state.InvalidID
`,
		"ulb/nfs/nfs4", "TestStateidOfClose"},
	{"RFC 8881 §8.4.2: names are removed during grace", "ulb/nfs/nfs4/remove.go",
		`	if s := k.mayChangeNames(); s != wire.NFS4OK {
		return s
	}
`,
		"",
		"ulb/nfs/nfs4", "TestNamesStayDuringGrace"},
	{"RFC 8881 §8.4.2: names are changed during grace", "ulb/nfs/nfs4/rename.go",
		`	if s := k.mayChangeNames(); s != wire.NFS4OK {
		return s
	}
`,
		"",
		"ulb/nfs/nfs4", "TestNamesStayDuringGrace"},
	{"RFC 7530 §16.9.5: LINK during grace is GRACE in minor version 0", "ulb/nfs/nfs4/link.go",
		"if k.Minor == 0 { // which has no NFS4ERR_GRACE here",
		"if false {",
		"ulb/nfs/nfs4", "TestNamesStayDuringGrace"},
	{"LOCKT is answered during grace", "ulb/nfs/nfs4/lock.go",
		`	if m.InGrace() {
		return wire.NFS4ErrGrace
	}
`,
		"",
		"ulb/nfs/nfs4", "TestGrace"},
	{"RENAME over a file that is denied to writers", "ulb/nfs/nfs4/rename.go",
		`	if s := k.removable(&k.Current, args.Newname); s != wire.NFS4OK {
		return s
	}
`,
		"",
		"ulb/nfs/nfs4", "TestOpenFilesKeepTheirNames"},
	{"REMOVE of a file that is denied to writers", "ulb/nfs/nfs4/remove.go",
		`	if s := k.removable(&k.Current, args.Target); s != wire.NFS4OK {
		return s
	}
`,
		"",
		"ulb/nfs/nfs4", "TestOpenFilesKeepTheirNames"},
	{"RFC 8881 §18.16.4: share_access 0", "ulb/nfs/nfs4/open.go",
		"if access == 0 || access > wire.Open4ShareAccessBoth",
		"if access > wire.Open4ShareAccessBoth",
		"ulb/nfs/nfs4", "TestDowngrade"},
	{"RFC 8881 §18.16.4: share_deny beyond both", "ulb/nfs/nfs4/open.go",
		" || deny > wire.Open4ShareDenyBoth {",
		" {",
		"ulb/nfs/nfs4", "TestOpenErrors"},
	{"RFC 8881 §18.16.3: a reclaim that conflicts is SHARE_DENIED", "ulb/nfs/nfs4/open.go",
		`		if o.reclaim {
			return wire.NFS4ErrReclaimConflict
		}
`,
		"",
		"ulb/nfs/nfs4", "TestGrace"},
	{"a lock reclaimed beside another is DENIED", "ulb/nfs/nfs4/lock.go",
		`		if a.Claimed {
			return wire.NFS4ErrReclaimConflict
		}
`,
		"",
		"ulb/nfs/nfs4", "TestGrace"},
	{"an OPEN that makes a file is checked against the mode it made", "ulb/nfs/nfs4/open.go",
		`	if o.made || o.reclaim {
		access |= vfs.OpenOwner
	}
`,
		"",
		"ulb/nfs/nfs4", "TestCreateOfAReadOnlyFile"},
	{"a size is cut before the share is granted", "ulb/nfs/nfs4/open_create.go",
		`	c.Attr.SetSize, c.Attr.Size = false, 0
`,
		"",
		"ulb/nfs/nfs4", "TestOpenCutsLast TestCreateWithASize"},
	{"a file without the cut stays open", "ulb/nfs/nfs4/open.go",
		`		k.Program.state.TakeBack(&o.state)
`,
		"",
		"ulb/nfs/nfs4", "TestOpenThatCannotCut"},
	{"changes on a read-only export (NFSv4)", "ulb/nfs/nfs4/compound.go",
		`	case op.Changes && k.Current.IsSet() && k.Current.Export.ReadOnly:
		return wire.NFS4ErrROFS
`,
		"",
		"ulb/nfs/nfs4", "TestErrorsOfNames"},
	{"OPEN to write on a read-only export", "ulb/nfs/nfs4/open.go",
		`	case o.access&state.AccessWrite != 0, o.args.Openhow.Opentype == wire.Open4Create:
		return wire.NFS4ErrROFS
`,
		"",
		"ulb/nfs/nfs4", "TestOpenOnReadOnlyExport"},
	{"WRITE of NFSv4 takes the verifier after the write", "ulb/nfs/nfs4/data.go",
		"Committed: wire.StableHow4(stable), Writeverf: verf}",
		`Committed: wire.StableHow4(stable), Writeverf: wire.Verifier4(k.FS().Verifier())}
	_ = verf`,
		"ulb/nfs/nfs4", "TestALossWhileWritingIsSeenByTheVerifier"},
	{"ACCESS on a read-only export grants changes (NFSv4)", "ulb/nfs/nfs4/access.go",
		`		granted &^= changing
`,
		"",
		"ulb/nfs/nfs4", "TestAccess"},
	{"VERIFY of what is longer is the same", "ulb/nfs/nfs4/verify.go",
		"return !w.Overflow() && bytes.Equal(w.Bytes(), given.AttrVals), wire.NFS4OK",
		"return w.Overflow() || bytes.Equal(w.Bytes(), given.AttrVals), wire.NFS4OK",
		"ulb/nfs/nfs4", "TestVerifyOfWhatIsLonger"},
	{"RFC 8881 §2.6.3.1: PUTFH of an export of other flavors", "ulb/nfs/nfs4/wrongsec.go",
		`		default:
			return k.wrongSec(&k.Current)
`,
		`		default:
			return wire.NFS4OK
`,
		"ulb/nfs/nfs4", "TestWrongSec"},
	{"SAVEFH hides the operation behind it", "ulb/nfs/nfs4/wrongsec.go",
		"case next == wire.OpSaveFH: // the one behind it decides",
		`case next == wire.OpSaveFH:
			return wire.NFS4OK`,
		"ulb/nfs/nfs4", "TestWrongSec"},
	{"RFC 8881 §18.29.4: SECINFO keeps the current file handle", "ulb/nfs/nfs4/secinfo.go",
		`		k.SetCurrent(Object{})
`,
		"",
		"ulb/nfs/nfs4", "TestSecinfoConsumesTheHandle"},
	{"a service of RPCSEC_GSS counts for another", "ulb/nfs/export/security.go",
		"return Krb5 + Security(c.GSS-rpc.GSSNone)",
		"return Krb5p + 0*Security(c.GSS-rpc.GSSNone)",
		"ulb/nfs/export", "TestAdmits"},
	{"RFC 8881 §2.6.3.1: an operation by a weak flavor", "ulb/nfs/nfs4/wrongsec.go",
		`	return k.cannotSay(n, wire.NFS4ErrStale)
}

// admitSaved`,
		`	return wire.NFS4OK
}

// admitSaved`,
		"ulb/nfs/nfs4", "TestNoWayAroundBySecInfo TestPolicyThatChangesMeanwhile"},
	{"RFC 8881 §2.6.3.1.1.5: SECINFO needs the flavor that it tells", "ulb/nfs/nfs4/wrongsec.go",
		`case wire.OpLookup, wire.OpLookupp, wire.OpSecInfo, wire.OpSecInfoNoName:
		return true`,
		`case wire.OpLookup, wire.OpLookupp, wire.OpSecInfoNoName:
		return true`,
		"ulb/nfs/nfs4", "TestWrongSec"},
	{"RFC 8881 §2.6.3.1.1.5: SECINFO_NO_NAME needs the flavor that it tells", "ulb/nfs/nfs4/wrongsec.go",
		`case wire.OpLookup, wire.OpLookupp, wire.OpSecInfo, wire.OpSecInfoNoName:
		return true`,
		`case wire.OpLookup, wire.OpLookupp, wire.OpSecInfo:
		return true`,
		"ulb/nfs/nfs4", "TestSecInfoNoNameNeedsNoFlavor"},
	{"LOOKUP into an export of other flavors is not judged", "ulb/nfs/nfs4/wrongsec.go",
		`	return k.wrongSec(&k.Current)
}

// out is`,
		`	return wire.NFS4OK
}

// out is`,
		"ulb/nfs/nfs4", "TestWrongSec"},
	{"RESTOREFH brings an export of other flavors back unseen", "ulb/nfs/nfs4/wrongsec.go",
		"wire.OpPutRootFH, wire.OpRestoreFH:",
		"wire.OpPutRootFH:",
		"ulb/nfs/nfs4", "TestWrongSec"},
	{"the saved object's export is not judged", "ulb/nfs/nfs4/wrongsec.go",
		"n == wire.OpLink || k.admits(&k.Saved) {",
		"n == wire.OpLink || k.admits(&k.Saved) || true {",
		"ulb/nfs/nfs4", "TestSavedHandleNeedsTheFlavorOfItsExport"},
	{"krb5 serves where krb5p is asked for", "ulb/nfs/export/security.go",
		"return len(all) == 0 || slices.Contains(all, SecurityOf(cred))",
		"return len(all) == 0 || slices.Contains(all, SecurityOf(cred)) || SecurityOf(cred) != Sys",
		"ulb/nfs/export", "TestAdmits"},
	{"RFC 7530 §13.1.2.7: PUTFH alone says nothing of what is gone", "ulb/nfs/nfs4/handle.go",
		"case wire.NFS4ErrStale, wire.NFS4ErrDelay, Blocked, Waiting:",
		"case wire.NFS4ErrDelay, Blocked, Waiting:",
		"ulb/nfs/nfs40", "TestStaleHandle"},
}
