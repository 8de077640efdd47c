package main

// sessionMutants are those of the client's sessions.
var sessionMutants = []mutant{
	{"RFC 8881 §2.10.6.1: a slot has two requests", "client/session_slots.go",
		`		t.busy[i] |= 1 << (n % 64)
`,
		"",
		"client", "TestSessionSlots"},
	{"the target of SEQUENCE is not kept to", "client/session_slots.go",
		`		case n >= t.limit:
			return nil
`,
		`		case n >= maxSlots:
			return nil
`,
		"client", "TestSessionSlots TestSessionCancel"},
	{"RFC 8881 §2.10.6.2: a lost reply is asked for under a new number", "client/session_request.go",
		`		c.doubtful = true
`,
		`		c.doubtful = true
		c.slot.seq++
		c.number()
`,
		"client", "TestNFS4ExactlyOnce TestSessionLostReply"},
	{"what was perhaps executed is executed in a new session", "client/session_request.go",
		"case c.settle || c.doubtful && c.Cache:",
		"case c.settle:",
		"client", "TestSessionDoubtful"},
	{"a reply to another slot is taken", "client/session_request.go",
		"if r.Sessionid != c.sequence.Sessionid || r.Slotid != c.sequence.Slotid || r.Sequenceid != c.sequence.Sequenceid {",
		"if r.Sessionid != c.sequence.Sessionid {",
		"client", "TestReplyOfAnotherSlotIsNone"},
	{"a slot that was given up is used at once", "client/session_request.go",
		`	c.session.settle(c.slot, c.link)
	c.finish(err)`,
		`	c.session.release(c.slot, false)
	c.finish(err)`,
		"client", "TestSessionCancel"},
	{"RFC 8881 §20.9: a callback is executed twice", "client/session_callbacks.go",
		"case args.Sequenceid == s.seq && s.reply != nil:",
		"case false:",
		"client", "TestSessionRecall"},
	{"RFC 8881 §20.9: callbacks in any order", "client/session_callbacks.go",
		`	case args.Sequenceid != s.seq+1:
		return nfs4wire.NFS4ErrSeqMisordered
`,
		"",
		"client", "TestSessionCallbackErrors"},
	{"RFC 8881 §2.10.6.3: a callback overtakes the reply that it is about", "client/session_callbacks.go",
		"if k.p.session.awaits(&args.ReferringCallLists) {",
		"if k.p.session.awaits(&args.ReferringCallLists) && false {",
		"client", "TestSessionReferringCalls"},
	{"a callback of another session", "client/session_callbacks.go",
		"case args.Sessionid != p.id || len(p.slots) == 0:",
		"case len(p.slots) == 0:",
		"client", "TestSessionCallbackErrors"},
	{"a slot's number is used twice", "client/session_request.go",
		`	defer s.mu.Unlock()
	sl.seq++
	sl.table.release(sl)`,
		`	defer s.mu.Unlock()
	sl.table.release(sl)`,
		"client", "TestReplyOfAnotherSlotIsNone"},
}
