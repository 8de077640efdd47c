package main

// tcpMutants are those of transport/tcp.
var tcpMutants = []mutant{
	{"a byte at each sweep makes a record's time begin again", "transport/tcp/deadline.go",
		`m.input, m.record = now, earlier(now, m.record.Add(now.Sub(m.last)))`,
		`m.input, m.record = now, now`,
		"transport/tcp", "TestSlowRecordMeetsEachSweep"},
	{"a connection keeps its ring while it waits", "transport/tcp/ring.go",
		`	r.ring.release()
	r.ring = nil
}

// step gives the ring back`,
		`	r.ring.release()
	r.stash = r.stash[:len(r.stash):len(r.stash)]
	r.stash = append(r.stash, make([]byte, ringSize)...)[:len(r.stash)]
	r.ring = nil
}

// step gives the ring back`,
		"transport/tcp", "TestIdleConnectionsAreSmall"},
	{"a connection that is polled for waits for what has come already", "transport/tcp/receive.go",
		"		case fresh:",
		"		case fresh && !c.member.Polls():",
		"transport/tcp", "TestCallsOnTheReceivingGoroutineArePolledFor"},
	{"a goroutine that was replaced ends the connection", "transport/tcp/conn.go",
		"	if !over {",
		"	if !over && err != nil {",
		"transport/tcp", "TestStalledCallOnTheReceivingGoroutine"},
	{"a peer that does not wait for replies is believed again at once", "transport/tcp/lend.go",
		"		l.alone = -l.doubt",
		"		l.alone = 0",
		"transport/tcp", "TestDoubtOfOneCallAtATime"},
}
