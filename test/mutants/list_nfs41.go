package main

// nfs41Mutants are those of sessions.
var nfs41Mutants = []mutant{
	{"the lease is not renewed by SEQUENCE", "ulb/nfs/nfs41/slot.go",
		`	l.session.minor.state.Renew(l.session.client.Client)
`,
		"",
		"ulb/nfs/nfs41", "TestSequenceRenewsTheLease"},
	{"the lease is not renewed by a repeated SEQUENCE", "ulb/nfs/nfs41/sequence.go",
		`	l.session.minor.state.Renew(l.session.client.Client)
`,
		"",
		"ulb/nfs/nfs41", "TestSequenceRenewsTheLease"},
	{"RFC 8881 §2.10.6.1.3: any sequence ID is the next", "ulb/nfs/nfs41/sequence.go",
		`	return wire.NFS4ErrSeqMisordered
}

// again`,
		`	return l.begin(k, args, digest)
}

// again`,
		"ulb/nfs/nfs41", "TestSequenceErrors"},
	{"RFC 8881 §2.10.6.1.3: a repetition is executed again", "ulb/nfs/nfs41/sequence.go",
		`		return l.again(k, digest)
`,
		`		return l.begin(k, args, digest)
`,
		"ulb/nfs/nfs41", "TestReplays"},
	{"RFC 8881 §2.10.6.1.3.1: another request gets the reply that was kept", "ulb/nfs/nfs41/sequence.go",
		`	case l.digest != digest:
		return wire.NFS4ErrSeqFalseRetry
`,
		"",
		"ulb/nfs/nfs41", "TestFalseRetries"},
	{"RFC 8881 §2.10.6.2: a slot's request that is under way is run beside", "ulb/nfs/nfs41/sequence.go",
		`	case l.busy:
		return wire.NFS4ErrDelay
`,
		"",
		"ulb/nfs/nfs41", "TestRequestUnderWay"},
	{"a new request takes a slot whose request is under way", "ulb/nfs/nfs41/sequence.go",
		`	if l.busy {
		return wire.NFS4ErrSeqMisordered
	}
`,
		"",
		"ulb/nfs/nfs41", "TestRequestUnderWay"},
	{"RFC 8881 §18.46.3: a slot beyond the session's", "ulb/nfs/nfs41/sequence.go",
		"case args.Slotid >= s.fore.Maxrequests:",
		"case args.Slotid > s.fore.Maxrequests:",
		"ulb/nfs/nfs41", "TestSequenceErrors"},
	{"RFC 8881 §18.46.3: a highest slot beyond the session's", "ulb/nfs/nfs41/sequence.go",
		`	case args.HighestSlotid >= s.fore.Maxrequests:
		return wire.NFS4ErrBadHighSlot
`,
		"",
		"ulb/nfs/nfs41", "TestSequenceErrors"},
	{"RFC 8881 §2.10.6.4: a request longer than agreed", "ulb/nfs/nfs41/sequence.go",
		`	case requestSize(k.Call) > int(s.fore.Maxrequestsize):
		return wire.NFS4ErrReqTooBig
`,
		`	case false:
`,
		"ulb/nfs/nfs41", "TestSizes"},
	{"RFC 8881 §2.10.6.4: a request that is four bytes longer than agreed", "ulb/nfs/nfs41/sequence.go",
		"requestSize(k.Call) > int(s.fore.Maxrequestsize):",
		"requestSize(k.Call) > int(s.fore.Maxrequestsize)+4:",
		"ulb/nfs/nfs41", "TestRequestsAsLongAsAgreed"},
	{"RFC 8881 §18.36.3: the server raises the largest request that the client asked for", "ulb/nfs/nfs41/channel.go",
		"min(a.Maxrequestsize, mostRequest)",
		"min(a.Maxrequestsize, mostRequest) + 4",
		"ulb/nfs/nfs41", "TestRequestsAsLongAsAgreed"},
	{"RFC 8881 §2.10.6.4: what travels beside a request does not count", "ulb/nfs/nfs41/sequence.go",
		`		n += int(p.Length)
`,
		`		_ = p
`,
		"ulb/nfs/nfs41", "TestRequestSizeCountsWhatTravelsBeside"},
	{"RFC 8881 §18.36.3: more operations than agreed", "ulb/nfs/nfs41/sequence.go",
		`	case k.Count > int(s.fore.Maxoperations):
		return wire.NFS4ErrTooManyOps
`,
		"",
		"ulb/nfs/nfs41", "TestSequenceErrors"},
	{"RFC 8881 §2.10.6.4: a reply longer than agreed", "ulb/nfs/nfs41/slot.go",
		"return int(fore.Maxresponsesize) - size, wire.NFS4ErrRepTooBig",
		"return int(fore.Maxresponsesize), wire.NFS4ErrRepTooBig",
		"ulb/nfs/nfs41", "TestSizes"},
	{"RFC 8881 §2.10.6.4: a reply longer than is kept", "ulb/nfs/nfs41/slot.go",
		"if l.cache && fore.MaxresponsesizeCached < fore.Maxresponsesize {",
		"if false {",
		"ulb/nfs/nfs41", "TestSizes"},
	{"a false retry is told from the first request by its caller", "ulb/nfs/nfs41/sequence.go",
		"flavor: c.Flavor, uid: c.UID, gid: c.GID,",
		"flavor: c.Flavor,",
		"ulb/nfs/nfs41", "TestFalseRetries"},
	{"a false retry that is longer at its end", "ulb/nfs/nfs41/sequence.go",
		"length:    len(rest), operations",
		"length:    0, operations",
		"ulb/nfs/nfs41", "TestFalseRetryThatIsLonger"},
	{"a reply that is being sent again is written over by the next", "ulb/nfs/nfs41/sequence.go",
		"if l.shared || l.spare != nil",
		"if l.spare != nil",
		"ulb/nfs/nfs41", "TestReplyThatIsSentAgainIsNotWrittenOver"},
	{"a false retry by another principal of RPCSEC_GSS", "ulb/nfs/nfs41/sequence.go",
		"id.principal, id.uid, id.gid = maphash.String(seed, c.Principal), 0, 0",
		"id.uid, id.gid = 0, 0",
		"ulb/nfs/nfs41", "TestRepetitionsAreTheSameCallers"},
	{"RFC 8881 §2.10.6.1.3: a reply that was not kept is not asked for again", "ulb/nfs/nfs41/minor.go",
		`	case *retry:
		return wire.NFS4ErrRetryUncachedRep
`,
		"",
		"ulb/nfs/nfs41", "TestReplays TestSlotOutlivesAPanic"},
	{"what must not be done twice is not kept unasked", "ulb/nfs/nfs41/slot.go",
		"\treturn l.once && k.W.StreamLen()",
		"\treturn false && k.W.StreamLen()",
		"ulb/nfs/nfs41", "TestReplays"},
	{"RFC 8881 §18.46.3: SEQUENCE in the middle of a compound", "ulb/nfs/nfs41/minor.go",
		`	case wire.OpSequence:
		return wire.NFS4ErrSequencePos
`,
		"",
		"ulb/nfs/nfs41", "TestPositions"},
	{"RFC 8881 §2.10.2.1: operations without SEQUENCE", "ulb/nfs/nfs41/minor.go",
		`	return wire.NFS4ErrOpNotInSession
`,
		`	return wire.NFS4OK
`,
		"ulb/nfs/nfs41", "TestPositions"},
	{"RFC 8881 §18.36.4: CREATE_SESSION under any sequence ID", "ulb/nfs/nfs41/create_session.go",
		`	default:
		return wire.NFS4ErrSeqMisordered
	}
	made`,
		`	default:
	}
	made`,
		"ulb/nfs/nfs41", "TestCreateSessionErrors TestCreateSessionReplay"},
	{"RFC 8881 §2.10.8.3: SP4_MACH_CRED is not looked at", "ulb/nfs/nfs41/protect.go",
		`return intact(cred) && nfs4.PrincipalOf(cred) == p.principal
}

// MachineMay says`,
		`return true
}

// MachineMay says`,
		"ulb/nfs/nfs41", "TestProtectedClient TestStateProtection"},
	{"RFC 8881 §2.10.8.3: a machine's credential without integrity", "ulb/nfs/nfs41/protect.go",
		`return intact(cred) && nfs4.PrincipalOf(cred) == p.principal
}

// MachineMay says`,
		`return nfs4.PrincipalOf(cred) == p.principal
}

// MachineMay says`,
		"ulb/nfs/nfs41", "TestStateProtection"},
	{"RFC 8881 §2.10.8.3: any principal maintains what only the machine may", "ulb/nfs/nfs41/protect.go",
		"return p.machine && p.allow.Has(uint32(op)) && intact(cred) && nfs4.PrincipalOf(cred) == p.principal",
		"return p.machine && p.allow.Has(uint32(op)) && intact(cred)",
		"ulb/nfs/nfs41", "TestStateProtection"},
	{"RFC 8881 §18.35.3: a connection of a protected client needs no binding", "ulb/nfs/nfs41/sequence.go",
		`	if s.client.protect.binds() {
		return false
	}
`,
		"",
		"ulb/nfs/nfs41", "TestProtectedClient"},
	{"RFC 8881 §18.37.3: a session is destroyed over a connection that is not its own", "ulb/nfs/nfs41/destroy.go",
		`	case s.binding(k.Call.Conn) == nil:
		return wire.NFS4ErrConnNotBoundToSession
`,
		"",
		"ulb/nfs/nfs41", "TestConnectionsOfASession"},
	{"RFC 8881 §18.37.3: DESTROY_SESSION before the end of its compound", "ulb/nfs/nfs41/destroy.go",
		`	case s == SessionOf(k) && k.Index != k.Count-1:
		return wire.NFS4ErrNotOnlyOp
`,
		"",
		"ulb/nfs/nfs41", "TestPositions"},
	{"RFC 8881 §20.9: a callback's sequence ID stays", "ulb/nfs/nfs41/backchannel.go",
		`	s.calls.slots[i].sequence++
`,
		`	_ = i
`,
		"ulb/nfs/nfs41", "TestCallback TestAnswers"},
	{"RFC 8881 §18.36.4: CREATE_SESSION is repeated", "ulb/nfs/nfs41/create_session.go",
		`	case next == 0:
		return c.replay(k)
`,
		`	case next == 0:
`,
		"ulb/nfs/nfs41", "TestCreateSessionReplay"},
	{"RFC 8881 §18.36.3: flags without a meaning are taken from a confirmed client", "ulb/nfs/nfs41/create_session.go",
		"if args.Flags&^sessionFlags != 0 {",
		"if !confirmed && args.Flags&^sessionFlags != 0 {",
		"ulb/nfs/nfs41", "TestCreateSessionBehindOneThatFailed"},
	{"a context of RPCSEC_GSS is taken for callbacks from a caller under AUTH_SYS", "ulb/nfs/nfs41/security.go",
		" || by.Flavor != rpc.AuthGSS",
		"",
		"ulb/nfs/nfs41", "TestContextsAreOfferedUnderGSSAlone"},
	{"RFC 8881 §20.9.3: a callback in a slot beyond the client's target", "ulb/nfs/nfs41/backchannel.go",
		"uint32(i) <= b.target",
		"uint32(i) <= b.target+1",
		"ulb/nfs/nfs41", "TestCallsKeepToTheTargetSlot"},
	{"the memory for replies has no bound", "ulb/nfs/nfs41/cache.go",
		"return c.left(s) >= int64(size-n)",
		"return true",
		"ulb/nfs/nfs41", "TestRepliesOfOneAddressLeaveAsMuchToOthers"},
	{"RFC 8881 §18.36.4: a client is confirmed by another principal", "ulb/nfs/nfs41/create_session.go",
		"if !confirmed && c.Principal != nfs4.PrincipalOf(&k.Call.Cred) {",
		"if !confirmed && len(c.Principal) == 0 {",
		"ulb/nfs/nfs41", "TestConfirmationByAnotherPrincipal"},
}
